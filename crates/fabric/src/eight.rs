//! Eight numbers of 16 bits, compared at once.

/// Which of the eight are `value`: a bit for each, the first one's lowest. The compiler has no such
/// instruction from plain code.
#[inline(always)]
#[must_use]
pub fn equal_of_eight(eight: &[u16; 8], value: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{
            _mm_cmpeq_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_set_epi64x, _mm_set1_epi16,
            _mm_setzero_si128,
        };
        let [low, high]: [i64; 2] = bytemuck::cast(*eight);
        // SAFETY: SSE2 is a part of x86-64; nothing here reads memory.
        unsafe {
            let equal = _mm_cmpeq_epi16(_mm_set_epi64x(high, low), _mm_set1_epi16(value as i16));
            _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    equal_in_words(eight, value)
}

/// The same, four at a time, side by side in a word.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn equal_in_words(eight: &[u16; 8], value: u16) -> u32 {
    const EACH: u64 = 0x0001_0001_0001_0001;
    const HIGHEST: u64 = EACH << 15;
    let wanted = u64::from(value) * EACH;
    let equal = bytemuck::cast::<_, [u64; 2]>(*eight).map(|four| {
        let differs = four ^ wanted;
        // A carry into the highest bit of each wherever any other bit is set.
        !(((differs & !HIGHEST) + !HIGHEST) | differs) & HIGHEST
    });
    // Their highest bits to bits 0, 4, 16, 20 and so on; and these to bits 48 to 55, in order.
    let apart = equal[0] >> 15 | equal[1] >> 11;
    (apart.wrapping_mul(0x0001_0002_0004_0008) >> 48) as u32 & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_bit_says_whether_its_number_is_the_value(
            eight in proptest::array::uniform8(prop_oneof![0..3_u16, any::<u16>()]),
            value in prop_oneof![0..3_u16, any::<u16>()],
        ) {
            let expected = (0..8).fold(0, |mask, at| mask | u32::from(eight[at] == value) << at);
            prop_assert_eq!(equal_of_eight(&eight, value), expected);
            prop_assert_eq!(equal_in_words(&eight, value), expected);
        }
    }
}
