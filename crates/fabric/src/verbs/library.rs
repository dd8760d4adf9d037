//! libibverbs, loaded on first use.

use super::abi::{
    ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_gid_entry, ibv_mr,
    ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_srq, ibv_srq_init_attr,
};
use crate::{FabricError, Result};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The library's name under the version of its stable interface.
const FILE: &str = "libibverbs.so.1";

/// Declares the functions that are used, with the types of the header.
macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($kind:ty),*) -> $returns:ty;)*) => {
        /// The functions of libibverbs. Each is sound to call as its manual page says, from any
        /// thread.
        pub(super) struct Library {
            $(pub(super) $field: unsafe extern "C" fn($($kind),*) -> $returns,)*
        }

        impl Library {
            fn load(file: &str) -> std::result::Result<Self, String> {
                // SAFETY: loading libibverbs runs its initialisers, which only set up its own
                // state; the name is that of rdma-core's library and of nothing else.
                let library = unsafe { libloading::Library::new(file) }.map_err(|error| {
                    format!(
                        "{file} cannot be loaded ({error}); install libibverbs1 and ibverbs-providers \
                         (Debian, Ubuntu) or libibverbs (Fedora, RHEL)"
                    )
                })?;
                let functions = Self {
                    $($field: {
                        // SAFETY: the symbol is a function of the type that the header gives it;
                        // all of them are of libibverbs' stable interface, whose versions never
                        // change.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($kind),*) -> $returns>($symbol)
                        };
                        *symbol.map_err(|error| {
                            format!("{file} is older than rdma-core 31: {error}")
                        })?
                    },)*
                };
                // The functions outlive every handle: the library is never unloaded.
                std::mem::forget(library);
                Ok(functions)
            }
        }
    };
}

functions! {
    get_device_list = c"ibv_get_device_list": fn(*mut c_int) -> *mut *mut ibv_device;
    free_device_list = c"ibv_free_device_list": fn(*mut *mut ibv_device) -> ();
    get_device_name = c"ibv_get_device_name": fn(*mut ibv_device) -> *const c_char;
    open_device = c"ibv_open_device": fn(*mut ibv_device) -> *mut ibv_context;
    close_device = c"ibv_close_device": fn(*mut ibv_context) -> c_int;
    query_device = c"ibv_query_device": fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    query_port = c"ibv_query_port": fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    query_gid_table = c"_ibv_query_gid_table":
        fn(*mut ibv_context, *mut ibv_gid_entry, usize, u32, usize) -> isize;
    alloc_pd = c"ibv_alloc_pd": fn(*mut ibv_context) -> *mut ibv_pd;
    dealloc_pd = c"ibv_dealloc_pd": fn(*mut ibv_pd) -> c_int;
    reg_mr = c"ibv_reg_mr": fn(*mut ibv_pd, *mut c_void, usize, c_uint) -> *mut ibv_mr;
    dereg_mr = c"ibv_dereg_mr": fn(*mut ibv_mr) -> c_int;
    create_comp_channel = c"ibv_create_comp_channel": fn(*mut ibv_context) -> *mut ibv_comp_channel;
    destroy_comp_channel = c"ibv_destroy_comp_channel": fn(*mut ibv_comp_channel) -> c_int;
    create_cq = c"ibv_create_cq":
        fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    destroy_cq = c"ibv_destroy_cq": fn(*mut ibv_cq) -> c_int;
    get_cq_event = c"ibv_get_cq_event":
        fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ack_cq_events = c"ibv_ack_cq_events": fn(*mut ibv_cq, c_uint) -> ();
    create_srq = c"ibv_create_srq": fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    destroy_srq = c"ibv_destroy_srq": fn(*mut ibv_srq) -> c_int;
    create_qp = c"ibv_create_qp": fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    modify_qp = c"ibv_modify_qp": fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    destroy_qp = c"ibv_destroy_qp": fn(*mut ibv_qp) -> c_int;
}

impl Library {
    /// The library, loaded once for the whole process.
    ///
    /// # Errors
    /// [`FabricError::NoRdmaDevice`] where it is missing or too old, with what to install.
    pub(super) fn get() -> Result<&'static Self> {
        static LIBRARY: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
        match LIBRARY.get_or_init(|| Self::load(FILE)) {
            Ok(library) => Ok(library),
            Err(reason) => Err(FabricError::NoRdmaDevice {
                reason: reason.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_says_what_to_install() {
        let error = Library::load("libibverbs-that-is-not-there.so.1")
            .err()
            .unwrap();
        assert!(error.contains("install libibverbs1"), "{error}");
        // One that is there and is another.
        let error = Library::load("libc.so.6").err().unwrap();
        assert!(error.contains("older than rdma-core 31"), "{error}");
    }
}
