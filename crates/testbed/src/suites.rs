//! Tests for each fabric from functions that are generic over it.

/// Makes a test of each function of each suite over each fabric: `fabric::suite::function`. A suite is a
/// module beside this call; its functions take the fabric as their only type parameter. So
/// `cargo test --test suites tcp::` runs everything over TCP.
///
/// What stands before a fabric becomes attributes of its tests:
///
/// ```
/// mod counters {
///     pub fn start_at_zero<F: farslot_testbed::TestFabric>() {}
/// }
///
/// farslot_testbed::suites! {
///     {
///         sim: farslot_testbed::Sim,
///         #[ignore = "needs two cores"]
///         tcp: farslot_testbed::Tcp,
///     }
///     {
///         counters { start_at_zero }
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! suites {
    (
        { $($(#[$($attribute:tt)*])* $fabric:ident: $type:ty),* $(,)? }
        $tests:tt
    ) => {$(
        mod $fabric {
            $crate::suites!(@suites [$(#[$($attribute)*])*] $type, $tests);
        }
    )*};
    (@suites $attributes:tt $type:ty, { $($suite:ident { $($test:ident)* })* }) => {$(
        mod $suite {
            $($crate::suites!(@test $attributes $type, $suite, $test);)*
        }
    )*};
    (@test [$($attributes:tt)*] $type:ty, $suite:ident, $test:ident) => {
        $($attributes)*
        #[test]
        fn $test() {
            super::super::$suite::$test::<$type>();
        }
    };
}
