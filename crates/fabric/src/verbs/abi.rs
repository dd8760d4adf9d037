//! The part of libibverbs' stable binary interface that is used here, as `<infiniband/verbs.h>`
//! declares it: nothing else in this crate knows an offset of it.
//!
//! Written by hand, so that building needs neither RDMA packages nor a C++ build system, and
//! checked by machine: `scripts/test-verbs` has the C compiler print every offset, size and
//! constant below from the distribution's own header, and compares them all (see the test at the
//! end). Structures that only libibverbs makes are declared as far as they are looked into.

#![allow(
    non_camel_case_types,
    missing_docs,
    reason = "the names are those of the C header, which documents them"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A member as the test compares it: its name in C, its offset and its size.
#[cfg(test)]
type MemberLayout = (&'static str, usize, usize);

/// Declares structures of the header; each declared member is compared with the header's by the
/// test. `whole` structures are compared in size as well; of a `part` only the beginning is
/// declared.
macro_rules! structures {
    ($($whole:ident $name:ident { $($member:ident: $kind:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub(super) struct $name { $(pub(super) $member: $kind,)* }
        )*

        /// Every declared structure: its name in C, whether it is declared whole, its size and
        /// members.
        #[cfg(test)]
        fn declared() -> Vec<(&'static str, bool, usize, Vec<MemberLayout>)> {
            vec![$((
                stringify!($name),
                stringify!($whole) == "whole",
                size_of::<$name>(),
                vec![$((
                    stringify!($member),
                    std::mem::offset_of!($name, $member),
                    {
                        const fn size<T>(_: fn(&$name) -> &T) -> usize { size_of::<T>() }
                        size(|whole| &whole.$member)
                    },
                )),*],
            )),*]
        }
    };
}

/// Declares constants of the header, which are compared as well.
macro_rules! constants {
    ($kind:ty: $($name:ident = $value:expr,)*) => {
        $(pub(super) const $name: $kind = $value;)*

        /// Every declared constant.
        #[cfg(test)]
        const CONSTANTS: &[(&str, u64)] = &[$((stringify!($name), $value as u64)),*];
    };
}

/// A structure that only libibverbs looks into.
#[repr(C)]
pub(super) struct Opaque([u8; 0]);

pub(super) type ibv_device = Opaque;

/// An address of a port: 16 bytes, an IPv6 address or an IPv4 address mapped to one on RoCE.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ibv_gid {
    pub(super) raw: [u8; 16],
}

type Unused = *mut c_void;

structures! {
    part ibv_context {
        device: *mut ibv_device,
        ops: ibv_context_ops,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
    }
    whole ibv_context_ops {
        _compat_query_device: Unused,
        _compat_query_port: Unused,
        _compat_alloc_pd: Unused,
        _compat_dealloc_pd: Unused,
        _compat_reg_mr: Unused,
        _compat_rereg_mr: Unused,
        _compat_dereg_mr: Unused,
        alloc_mw: Unused,
        bind_mw: Unused,
        dealloc_mw: Unused,
        _compat_create_cq: Unused,
        poll_cq: unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int,
        req_notify_cq: unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int,
        _compat_cq_event: Unused,
        _compat_resize_cq: Unused,
        _compat_destroy_cq: Unused,
        _compat_create_srq: Unused,
        _compat_modify_srq: Unused,
        _compat_query_srq: Unused,
        _compat_destroy_srq: Unused,
        post_srq_recv:
            unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
        _compat_create_qp: Unused,
        _compat_query_qp: Unused,
        _compat_modify_qp: Unused,
        _compat_destroy_qp: Unused,
        post_send:
            unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
        post_recv:
            unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
        _compat_create_ah: Unused,
        _compat_destroy_ah: Unused,
        _compat_attach_mcast: Unused,
        _compat_detach_mcast: Unused,
        _compat_async_event: Unused,
    }
    whole ibv_device_attr {
        fw_ver: [c_char; 64],
        node_guid: u64,
        sys_image_guid: u64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: c_uint,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: c_int,
        atomic_cap: c_uint,
        max_ee: c_int,
        max_rdd: c_int,
        max_mw: c_int,
        max_raw_ipv6_qp: c_int,
        max_raw_ethy_qp: c_int,
        max_mcast_grp: c_int,
        max_mcast_qp_attach: c_int,
        max_total_mcast_qp_attach: c_int,
        max_ah: c_int,
        max_fmr: c_int,
        max_map_per_fmr: c_int,
        max_srq: c_int,
        max_srq_wr: c_int,
        max_srq_sge: c_int,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }
    whole ibv_port_attr {
        state: c_uint,
        max_mtu: c_uint,
        active_mtu: c_uint,
        gid_tbl_len: c_int,
        port_cap_flags: u32,
        max_msg_sz: u32,
        bad_pkey_cntr: u32,
        qkey_viol_cntr: u32,
        pkey_tbl_len: u16,
        lid: u16,
        sm_lid: u16,
        lmc: u8,
        max_vl_num: u8,
        sm_sl: u8,
        subnet_timeout: u8,
        init_type_reply: u8,
        active_width: u8,
        active_speed: u8,
        phys_state: u8,
        link_layer: u8,
        flags: u8,
        port_cap_flags2: u16,
    }
    whole ibv_gid_entry {
        gid: ibv_gid,
        gid_index: u32,
        port_num: u32,
        gid_type: u32,
        ndev_ifindex: u32,
    }
    part ibv_pd {
        context: *mut ibv_context,
        handle: u32,
    }
    whole ibv_mr {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }
    whole ibv_comp_channel {
        context: *mut ibv_context,
        fd: c_int,
        refcnt: c_int,
    }
    part ibv_cq {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
    }
    part ibv_srq {
        context: *mut ibv_context,
        srq_context: *mut c_void,
        pd: *mut ibv_pd,
        handle: u32,
    }
    part ibv_qp {
        context: *mut ibv_context,
        qp_context: *mut c_void,
        pd: *mut ibv_pd,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        handle: u32,
        qp_num: u32,
    }
    whole ibv_qp_cap {
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
    }
    whole ibv_qp_init_attr {
        qp_context: *mut c_void,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        cap: ibv_qp_cap,
        qp_type: c_uint,
        sq_sig_all: c_int,
    }
    whole ibv_global_route {
        dgid: ibv_gid,
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
    }
    whole ibv_ah_attr {
        grh: ibv_global_route,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
    }
    whole ibv_qp_attr {
        qp_state: c_uint,
        cur_qp_state: c_uint,
        path_mtu: c_uint,
        path_mig_state: c_uint,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: c_uint,
        cap: ibv_qp_cap,
        ah_attr: ibv_ah_attr,
        alt_ah_attr: ibv_ah_attr,
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        rate_limit: u32,
    }
    whole ibv_srq_attr {
        max_wr: u32,
        max_sge: u32,
        srq_limit: u32,
    }
    whole ibv_srq_init_attr {
        srq_context: *mut c_void,
        attr: ibv_srq_attr,
    }
    whole ibv_sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }
    whole ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }
    whole ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: c_uint,
        send_flags: c_uint,
        imm_data: u32,
        wr: RequestTarget,
        qp_type: u32,
        bind_mw: [u64; 6],
    }
    whole ibv_wc {
        wr_id: u64,
        status: c_uint,
        opcode: c_uint,
        vendor_err: u32,
        byte_len: u32,
        imm_data: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: c_uint,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }
}

/// `ibv_send_wr.wr`: the remote word or words. READs and WRITEs use `rdma`, atomics `atomic`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union RequestTarget {
    pub(super) rdma: Rdma,
    pub(super) atomic: Atomic,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Rdma {
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Atomic {
    pub(super) remote_addr: u64,
    pub(super) compare_add: u64,
    pub(super) swap: u64,
    pub(super) rkey: u32,
}

constants! { c_uint:
    IBV_ACCESS_LOCAL_WRITE = 1,
    IBV_ACCESS_REMOTE_WRITE = 2,
    IBV_ACCESS_REMOTE_READ = 4,
    IBV_ACCESS_REMOTE_ATOMIC = 8,
    IBV_GID_TYPE_ROCE_V1 = 1,
    IBV_GID_TYPE_ROCE_V2 = 2,
    IBV_LINK_LAYER_ETHERNET = 2,
    IBV_PORT_ACTIVE = 4,
    IBV_QPT_RC = 2,
    IBV_QPS_INIT = 1,
    IBV_QPS_RTR = 2,
    IBV_QPS_RTS = 3,
    IBV_QPS_ERR = 6,
    IBV_QP_STATE = 1 << 0,
    IBV_QP_ACCESS_FLAGS = 1 << 3,
    IBV_QP_PKEY_INDEX = 1 << 4,
    IBV_QP_PORT = 1 << 5,
    IBV_QP_AV = 1 << 7,
    IBV_QP_PATH_MTU = 1 << 8,
    IBV_QP_TIMEOUT = 1 << 9,
    IBV_QP_RETRY_CNT = 1 << 10,
    IBV_QP_RNR_RETRY = 1 << 11,
    IBV_QP_RQ_PSN = 1 << 12,
    IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
    IBV_QP_MIN_RNR_TIMER = 1 << 15,
    IBV_QP_SQ_PSN = 1 << 16,
    IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
    IBV_QP_DEST_QPN = 1 << 20,
    IBV_SEND_SIGNALED = 2,
    IBV_SEND_INLINE = 8,
    IBV_WR_RDMA_WRITE = 0,
    IBV_WR_RDMA_WRITE_WITH_IMM = 1,
    IBV_WR_RDMA_READ = 4,
    IBV_WR_ATOMIC_CMP_AND_SWP = 5,
    IBV_WR_ATOMIC_FETCH_AND_ADD = 6,
    IBV_WC_SUCCESS = 0,
    IBV_WC_REM_INV_REQ_ERR = 9,
    IBV_WC_REM_ACCESS_ERR = 10,
    IBV_WC_RETRY_EXC_ERR = 12,
    IBV_WC_RNR_RETRY_EXC_ERR = 13,
    IBV_WC_RECV_RDMA_WITH_IMM = 129,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::process::Command;

    /// What the C compiler says of the header: the answers to `questions`, expressions of integers.
    fn ask_the_header(questions: &[String]) -> Vec<u64> {
        let mut program = String::from(
            "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\nint main(void) {\n",
        );
        for question in questions {
            writeln!(
                program,
                "  printf(\"%llu\\n\", (unsigned long long) ({question}));"
            )
            .unwrap();
        }
        program.push_str("  return 0;\n}\n");
        let at = std::env::temp_dir().join(format!("farslot-verbs-abi-{}", std::process::id()));
        let source = at.with_extension("c");
        std::fs::write(&source, program).unwrap();
        let compiled = Command::new("cc").arg("-o").arg(&at).arg(&source).status();
        assert!(
            compiled.unwrap().success(),
            "it needs a C compiler and <infiniband/verbs.h> (libibverbs-dev)"
        );
        let answers = Command::new(&at).output().unwrap();
        std::fs::remove_file(&at).unwrap();
        std::fs::remove_file(&source).unwrap();
        let answers = String::from_utf8(answers.stdout).unwrap();
        answers.lines().map(|line| line.parse().unwrap()).collect()
    }

    #[test]
    #[ignore = "needs libibverbs-dev: scripts/test-verbs runs it"]
    fn every_offset_size_and_constant_is_that_of_the_header() {
        let mut questions = Vec::new();
        let mut ours = Vec::new();
        let mut ask = |question: String, answer: usize| {
            questions.push(question);
            ours.push(answer as u64);
        };
        for (name, whole, size, members) in declared() {
            if whole {
                ask(format!("sizeof(struct {name})"), size);
            }
            for (member, offset, size) in members {
                ask(format!("offsetof(struct {name}, {member})"), offset);
                ask(format!("sizeof(((struct {name} *) 0)->{member})"), size);
            }
        }
        ask("sizeof(union ibv_gid)".into(), size_of::<ibv_gid>());
        ask("_Alignof(union ibv_gid)".into(), align_of::<ibv_gid>());
        let target = std::mem::offset_of!(ibv_send_wr, wr);
        for (member, offset) in [
            ("rdma.remote_addr", std::mem::offset_of!(Rdma, remote_addr)),
            ("rdma.rkey", std::mem::offset_of!(Rdma, rkey)),
            (
                "atomic.remote_addr",
                std::mem::offset_of!(Atomic, remote_addr),
            ),
            (
                "atomic.compare_add",
                std::mem::offset_of!(Atomic, compare_add),
            ),
            ("atomic.swap", std::mem::offset_of!(Atomic, swap)),
            ("atomic.rkey", std::mem::offset_of!(Atomic, rkey)),
        ] {
            ask(
                format!("offsetof(struct ibv_send_wr, wr.{member})"),
                target + offset,
            );
        }
        for (name, value) in CONSTANTS {
            ask((*name).into(), *value as usize);
        }
        let c_sizes = ask_the_header(&questions);
        assert_eq!(c_sizes.len(), questions.len());
        for ((question, ours), c_sizes) in questions.iter().zip(ours).zip(c_sizes) {
            assert_eq!(ours, c_sizes, "{question}");
        }
    }
}
