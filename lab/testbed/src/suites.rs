//! Tests for each fabric from functions of it.

/// Makes a test of each function of each suite over each fabric: `fabric::suite::function`. A suite
/// is a module beside this call; its functions take the fabric as their only argument, or as their
/// only type parameter where a fabric is a type of the tests' own. So `cargo test --test suites
/// tcp::` runs everything over TCP.
///
/// What stands before a fabric becomes attributes of its tests:
///
/// ```
/// mod counters {
///     pub fn start_at_zero(_: farslot_testbed::Fabric) {}
/// }
///
/// farslot_testbed::suites! {
///     {
///         sim = farslot_testbed::Fabric::Sim,
///         #[ignore = "needs two cores"]
///         tcp = farslot_testbed::Fabric::Tcp,
///     }
///     {
///         counters { start_at_zero }
///     }
/// }
///
/// // Over each of `Fabric`'s, where verbs need a device.
/// mod over_all {
///     use super::counters;
///
///     farslot_testbed::suites! { every fabric { counters { start_at_zero } } }
/// }
///
/// mod over_types {
///     mod values {
///         pub fn have_defaults<T: Default>() {
///             T::default();
///         }
///     }
///
///     farslot_testbed::suites! {
///         { text: String }
///         { values { have_defaults } }
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! suites {
    (every fabric $tests:tt) => {
        $crate::suites! {
            {
                sim = $crate::Fabric::Sim,
                shm = $crate::Fabric::Shm,
                tcp = $crate::Fabric::Tcp,
                #[ignore = "needs a verbs device: scripts/test-verbs"]
                verbs = $crate::Fabric::Verbs,
            }
            $tests
        }
    };
    (
        { $($(#[$($attribute:tt)*])* $fabric:ident = $value:expr),* $(,)? }
        $tests:tt
    ) => {$(
        mod $fabric {
            $crate::suites!(@suites [$(#[$($attribute)*])*] [($value)], $tests);
        }
    )*};
    (
        { $($(#[$($attribute:tt)*])* $fabric:ident: $type:ty),* $(,)? }
        $tests:tt
    ) => {$(
        mod $fabric {
            $crate::suites!(@suites [$(#[$($attribute)*])*] [::<$type>()], $tests);
        }
    )*};
    (@suites $attributes:tt $call:tt, { $($suite:ident { $($test:ident)* })* }) => {$(
        mod $suite {
            $($crate::suites!(@test $attributes $call, $suite, $test);)*
        }
    )*};
    (@test [$($attributes:tt)*] [$($call:tt)*], $suite:ident, $test:ident) => {
        $($attributes)*
        #[test]
        fn $test() {
            super::super::$suite::$test $($call)*;
        }
    };
}
