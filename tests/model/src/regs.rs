// SPDX-License-Identifier: GPL-2.0
//! The register file: which registers exist, and what reading and writing them means in general.
//!
//! [`TABLE`] is the register documentation: offset, name, reset value, writable bits, access rule,
//! the modes in which it may be written, the variants that have it, and where the fact comes from
//! (source tags as in the hardware reference: K-drv, K-ml, K-qnx, K-bsp, K-qemu, A = assumption).
//! Side effects of single registers live with the block they act on (`modes`,
//! [`crate::dmac`], [`crate::emac`]).

use serde_json::{Map, Value};
use std::collections::BTreeMap;

use crate::variant::{Variant, VariantSet};

macro_rules! offsets {
    ($($(#[$doc:meta])* $name:ident = $offset:expr;)*) => {
        $($(#[$doc])* pub const $name: u16 = $offset;)*
    };
}

/// Register offsets in bytes, named as in the hardware documentation.
#[allow(missing_docs)]
pub mod reg {
    offsets! {
        CCC = 0x000; DBAT = 0x004; DLR = 0x008; CSR = 0x00c; CDAR0 = 0x010; ESR = 0x088;
        APSR = 0x08c; RCR = 0x090; RQC0 = 0x094; RPC = 0x0b0; RTC = 0x0b4; UFCW = 0x0bc;
        UFCS = 0x0c0; UFCV0 = 0x0c4; UFCD0 = 0x0e0; SFO = 0x0fc; SFP0 = 0x100; SFV0 = 0x1b8;
        SFM0 = 0x1c0; SFL = 0x1c8; CIAR0 = 0x200; TGC = 0x300; TCCR = 0x304; TSR = 0x308;
        MFA = 0x30c; TFA0 = 0x310; VRR = 0x31c; CIVR0 = 0x320;
        CDVR0 = 0x328; CUL0 = 0x330; CLL0 = 0x338;
        DIC = 0x350; DIS = 0x354; EIC = 0x358; EIS = 0x35c; RIC0 = 0x360; RIS0 = 0x364;
        RIC1 = 0x368; RIS1 = 0x36c; RIC2 = 0x370; RIS2 = 0x374; TIC = 0x378; TIS = 0x37c;
        ISS = 0x380; CIE = 0x384; RIC3 = 0x388; RIS3 = 0x38c;
        GCCR = 0x390; GMTT = 0x394; GPTC = 0x398; GTI = 0x39c; GTO0 = 0x3a0; GIC = 0x3ac;
        GIS = 0x3b0; GCPT = 0x3b4; GCT0 = 0x3b8; GIE = 0x3cc; GID = 0x3d0; GIL = 0x3d4;
        DIL = 0x440; EIL = 0x444; TIL = 0x448; DIE = 0x450; DID = 0x454; EIE = 0x458; EID = 0x45c;
        RIE0 = 0x460; RID0 = 0x464; RIE1 = 0x468; RID1 = 0x46c; RIE2 = 0x470; RID2 = 0x474;
        TIE = 0x478; TID = 0x47c; RIE3 = 0x488; RID3 = 0x48c;
        ECMR = 0x500; RFLR = 0x508; ECSR = 0x510; ECSIPR = 0x518; PIR = 0x520; PSR = 0x528;
        PIPR = 0x52c; CXR31 = 0x530; CXR35 = 0x540; APR = 0x554; MPR = 0x558; PFTCR = 0x55c;
        PFRCR = 0x560; PFTTLR = 0x564; PFTTCR = 0x568; GECMR = 0x5b0; MAHR = 0x5c0; MALR = 0x5c8;
        TROCR = 0x700; CXR41 = 0x708; CXR42 = 0x710; CEFCR = 0x740; FRECR = 0x748;
        TSFRCR = 0x750; TLFRCR = 0x758; RFCR = 0x760; MAFCR = 0x778;
        CSR0 = 0x800; CSR1 = 0x804; CSR2 = 0x808;
    }
}

/// Register bits, grouped by register.
#[allow(missing_docs)]
pub mod bit {
    pub const CCC_OPC: u32 = 0x3;
    pub const CCC_GAC: u32 = 1 << 7;
    pub const CCC_DTSR: u32 = 1 << 8;
    pub const CCC_CSEL: u32 = 3 << 16;
    pub const CCC_BOC: u32 = 1 << 20;
    pub const CCC_LBME: u32 = 1 << 24;
    pub const CCC_FCE: u32 = 1 << 25;
    pub const CSR_DTS: u32 = 1 << 8;
    pub const CSR_TPO0: u32 = 1 << 16;
    pub const CSR_RPO: u32 = 1 << 20;
    pub const ESR_EIL: u32 = 1 << 12;
    pub const RCR_EFFS: u32 = 1 << 0;
    pub const RCR_ENCF: u32 = 1 << 1;
    pub const RCR_ESF: u32 = 3 << 2;
    pub const RCR_ETS0: u32 = 1 << 4;
    pub const RCR_ETS2: u32 = 1 << 5;
    pub const RCR_SBFS: u32 = 1 << 7;
    pub const TCCR_TSRQ: u32 = 0xf;
    pub const TCCR_TFEN: u32 = 1 << 8;
    pub const TCCR_TFR: u32 = 1 << 9;
    pub const TCCR_MFEN: u32 = 1 << 16;
    pub const TCCR_MFR: u32 = 1 << 17;
    pub const EIS_QEF: u32 = 1 << 2;
    pub const EIS_TFFF: u32 = 1 << 8;
    pub const EIS_QFS: u32 = 1 << 16;
    pub const RIS2_RFFF: u32 = 1 << 31;
    pub const RIS1_RFWF: u32 = 1 << 31;
    pub const TIS_TFUF: u32 = 1 << 8;
    pub const TIS_TFWF: u32 = 1 << 9;
    pub const TIS_TDPF0: u32 = 1 << 16;
    pub const ISS_FRS: u32 = 1 << 0;
    pub const ISS_RWS: u32 = 1 << 1;
    pub const ISS_FTS: u32 = 1 << 2;
    pub const ISS_ES: u32 = 1 << 6;
    pub const ISS_MS: u32 = 1 << 7;
    pub const ISS_RFWS: u32 = 1 << 12;
    pub const ISS_CGIS: u32 = 1 << 13;
    pub const CIE_CRIE: u32 = 1 << 0;
    pub const CIE_CTIE: u32 = 1 << 8;
    pub const CIE_RQFM: u32 = 1 << 16;
    pub const CIE_CL0M: u32 = 1 << 17;
    pub const CIE_RFWL: u32 = 1 << 18;
    pub const CIE_RFFL: u32 = 1 << 19;
    pub const GCCR_TCR: u32 = 3;
    pub const GCCR_TCR_RESET: u32 = 1;
    pub const GCCR_TCR_CAPTURE: u32 = 3;
    pub const GCCR_LTO: u32 = 1 << 2;
    pub const GCCR_LTI: u32 = 1 << 3;
    pub const GCCR_LPTC: u32 = 1 << 4;
    pub const GCCR_LMTT: u32 = 1 << 5;
    /// Everything that clears when it is done.
    pub const GCCR_REQUESTS: u32 = GCCR_TCR | GCCR_LTO | GCCR_LTI | GCCR_LPTC | GCCR_LMTT;
    pub const GCCR_TCSS: u32 = 3 << 8;
    pub const GCCR_TCSS_RAW: u32 = 0;
    pub const GCCR_TCSS_AVTP: u32 = 2 << 8;
    pub const GIS_PTCF: u32 = 1 << 0;
    pub const GIS_PTOF: u32 = 1 << 1;
    pub const GIS_PTMF: u32 = 1 << 2;
    pub const ECMR_PRM: u32 = 1 << 0;
    pub const ECMR_DM: u32 = 1 << 1;
    pub const ECMR_TE: u32 = 1 << 5;
    pub const ECMR_RE: u32 = 1 << 6;
    pub const ECMR_MPDE: u32 = 1 << 9;
    pub const ECMR_RXF: u32 = 1 << 17;
    pub const ECMR_PFR: u32 = 1 << 18;
    pub const ECMR_RZPF: u32 = 1 << 20;
    pub const ECMR_DPAD: u32 = 1 << 21;
    pub const ECMR_RCSC: u32 = 1 << 23;
    pub const ECMR_RCPT: u32 = 1 << 25;
    pub const ECMR_TRCCM: u32 = 1 << 26;
    pub const ECSR_MPD: u32 = 1 << 1;
    pub const ECSR_LCHNG: u32 = 1 << 2;
    pub const ECSR_PHYI: u32 = 1 << 3;
    pub const ECSR_PFRI: u32 = 1 << 4;
    pub const PIR_MDI: u32 = 1 << 3;
    pub const PSR_LMON: u32 = 1 << 0;
    pub const CSR0_TPE: u32 = 1 << 4;
    pub const CSR0_RPE: u32 = 1 << 5;
}

/// What a write does to the stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Stores the writable bits.
    ReadWrite,
    /// Ignores writes.
    ReadOnly,
    /// A 0 clears the bit, a 1 keeps it.
    WriteZeroClears,
    /// A 1 clears the bit, a 0 keeps it.
    WriteOneClears,
    /// A 1 sets the bit in another register; reads as 0 (A).
    Sets(u16),
    /// A 1 clears the bit in another register; reads as 0 (A).
    Clears(u16),
    /// E-MAC event counter: any write clears it, or reading does (ECMR.TRCCM).
    Counter,
}

/// Modes in which a register may be written. RESET holds everything but CCC in reset (A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In every mode.
    Always,
    /// In every mode but RESET.
    Running,
    /// In CONFIG only (A for the registers no source names).
    Config,
}

/// One register, or an array of registers with consecutive offsets.
#[derive(Debug)]
pub struct Register {
    /// Offset of the (first) register in bytes.
    pub offset: u16,
    /// Number of registers in the array; 1 for a single register.
    pub count: u16,
    /// Name, without the index for arrays.
    pub name: &'static str,
    /// Value after reset.
    pub reset: u32,
    /// Bits a write can change.
    pub writable: u32,
    /// Bits a write cannot change and may carry any value; what is in neither mask is reserved.
    pub ignored: u32,
    /// What a write does.
    pub access: Access,
    /// Modes in which it may be written.
    pub when: When,
    /// Variants that have it.
    pub on: VariantSet,
    /// Where reset value, bits and rules come from.
    pub source: &'static str,
}

impl Register {
    /// Bits that must be written as 0.
    pub fn reserved(&self) -> u32 {
        !(self.writable | self.ignored)
    }

    const fn new(offset: u16, name: &'static str, access: Access, source: &'static str) -> Self {
        Self {
            offset,
            count: 1,
            name,
            reset: 0,
            writable: 0,
            ignored: 0,
            access,
            when: When::Running,
            on: VariantSet::ALL,
            source,
        }
    }
    const fn array(mut self, count: u16) -> Self {
        self.count = count;
        self
    }
    const fn reset(mut self, value: u32) -> Self {
        self.reset = value;
        self
    }
    const fn writable(mut self, mask: u32) -> Self {
        self.writable = mask;
        self
    }
    const fn ignored(mut self, mask: u32) -> Self {
        self.ignored = mask;
        self
    }
    const fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }
    const fn on(mut self, on: VariantSet) -> Self {
        self.on = on;
        self
    }
}

const fn rw(offset: u16, name: &'static str, writable: u32, source: &'static str) -> Register {
    Register::new(offset, name, Access::ReadWrite, source).writable(writable)
}
const fn config(offset: u16, name: &'static str, writable: u32, source: &'static str) -> Register {
    rw(offset, name, writable, source).when(When::Config)
}
const fn ro(offset: u16, name: &'static str, source: &'static str) -> Register {
    Register::new(offset, name, Access::ReadOnly, source).ignored(!0)
}
const fn w0c(offset: u16, name: &'static str, writable: u32, source: &'static str) -> Register {
    Register::new(offset, name, Access::WriteZeroClears, source).writable(writable)
}
const fn counter(offset: u16, name: &'static str, source: &'static str) -> Register {
    Register::new(offset, name, Access::Counter, source).ignored(!0)
}

const fn sets(offset: u16, name: &'static str, target: u16, mask: u32) -> Register {
    Register::new(offset, name, Access::Sets(target), "K-drv; reads 0 (A)")
        .writable(mask)
        .on(VariantSet::GEN3_GEN4)
}
const fn clears(offset: u16, name: &'static str, target: u16, mask: u32) -> Register {
    Register::new(offset, name, Access::Clears(target), "K-drv; reads 0 (A)")
        .writable(mask)
        .on(VariantSet::GEN3_GEN4)
}

/// One bit per RX queue.
const QUEUES: u32 = 0x0003_ffff;
/// One bit per RX queue, and one for the FIFO.
const QUEUES_FIFO: u32 = QUEUES | 1 << 31;
const CCC_ETHERAVB: u32 =
    bit::CCC_OPC | bit::CCC_DTSR | bit::CCC_CSEL | bit::CCC_BOC | bit::CCC_LBME | bit::CCC_FCE;
const DESCRIPTORS: u32 = 0xfffe;
const ERRORS: u32 = 0x07ff;
const TX: u32 = 0x000f_0f0f;
const GPTP: u32 = 0xffff_03ff;

/// Every register, in order of offset within each block.
#[rustfmt::skip]
pub static TABLE: &[Register] = &[
    // AVB-DMAC core.
    rw(reg::CCC, "CCC", bit::CCC_OPC | bit::CCC_DTSR | bit::CCC_BOC | bit::CCC_LBME | bit::CCC_FCE,
       "K-drv, K-qnx").when(When::Always).on(VariantSet::GBETH),
    rw(reg::CCC, "CCC", CCC_ETHERAVB | bit::CCC_GAC, "K-drv, K-qnx")
        .when(When::Always).on(VariantSet::GEN3_GEN4),
    rw(reg::CCC, "CCC", CCC_ETHERAVB, "K-drv, K-qnx; no GAC (K-ml)")
        .when(When::Always).on(VariantSet::GEN2_RZV2M),
    config(reg::DBAT, "DBAT", !7, "K-drv, 8-byte aligned"),
    rw(reg::DLR, "DLR", 0x3f_ffff, "K-qnx; set after reset (K-qemu), clears as queues load")
        .reset(0x3f_ffff),
    ro(reg::CSR, "CSR", "K-drv, K-qnx").reset(1),
    ro(reg::CDAR0, "CDAR", "K-drv, K-bsp").array(22),
    ro(reg::ESR, "ESR", "K-qnx"),
    config(reg::RCR, "RCR", 0x7fff_0000, "K-ml: 15:0 reserved on GbEth; reset K-qemu")
        .reset(0x1800_0000).on(VariantSet::GBETH),
    config(reg::RCR, "RCR", 0x1fff_00bf, "K-drv, K-qnx; reset K-qemu")
        .reset(0x1800_0000).on(VariantSet::ETHERAVB),
    rw(reg::APSR, "APSR", 0x0000_6010, "K-drv").on(VariantSet::GEN3),
    rw(reg::APSR, "APSR", 0x0100_6010, "K-drv").on(VariantSet::GEN4),
    config(reg::RQC0, "RQC", 0x7f7f_7f7f, "K-qnx").array(5),
    config(reg::RPC, "RPC", 0x00ff_0700, "K-drv; reset K-qemu").reset(0x100),
    config(reg::RTC, "RTC", 0x7fff_7fff, "K-drv: wider fields than R-Car; A for the width")
        .reset(0x0ffc_0ffc).on(VariantSet::GBETH),
    config(reg::RTC, "RTC", 0x0fff_0fff, "K-drv; reset K-qemu")
        .reset(0x0ffc_0ffc).on(VariantSet::ETHERAVB),
    rw(reg::UFCW, "UFCW", 0x3f3f_3f3f, "K-drv"),
    rw(reg::UFCS, "UFCS", 0x3f3f_3f3f, "K-drv"),
    ro(reg::UFCV0, "UFCV", "K-drv").array(5),
    rw(reg::UFCD0, "UFCD", 0x3f3f_3f3f, "K-drv; reads 0 (A)").array(5),
    config(reg::SFO, "SFO", 0x3f, "K-drv").on(VariantSet::ETHERAVB),
    config(reg::SFP0, "SFP", !0, "K-drv").array(32).on(VariantSet::ETHERAVB),
    rw(reg::SFV0, "SFV", !0, "K-bsp").array(2).on(VariantSet::ETHERAVB),
    config(reg::SFM0, "SFM", !0, "K-drv").array(2).on(VariantSet::ETHERAVB),
    rw(reg::SFL, "SFL", 0x1f, "K-bsp").reset(0x1f).on(VariantSet::ETHERAVB),
    ro(reg::CIAR0, "CIAR", "K-pat").array(18),
    // Transmission.
    config(reg::TGC, "TGC", 0x0033_333f, "K-qnx; reset K-qemu").reset(0x0022_2200),
    rw(reg::TCCR, "TCCR", bit::TCCR_TSRQ, "K-drv: others unused on GbEth")
        .ignored(0x0003_0300).on(VariantSet::GBETH),
    rw(reg::TCCR, "TCCR", bit::TCCR_TSRQ | bit::TCCR_TFEN | bit::TCCR_TFR | bit::TCCR_MFEN
       | bit::TCCR_MFR, "K-drv, K-qnx").on(VariantSet::ETHERAVB),
    ro(reg::TSR, "TSR", "K-qnx"),
    ro(reg::MFA, "MFA", "K-gen2"),
    ro(reg::TFA0, "TFA", "K-drv").array(3).on(VariantSet::ETHERAVB),
    rw(reg::CIVR0, "CIVR", 0xffff, "K-bsp; reset K-qemu").reset(1).array(2)
        .on(VariantSet::ETHERAVB),
    rw(reg::CDVR0, "CDVR", !0, "K-bsp; reset K-qemu").reset(!0).array(2).on(VariantSet::ETHERAVB),
    rw(reg::CUL0, "CUL", !0, "K-bsp; reset K-qemu").reset(0x7fff_ffff).array(2)
        .on(VariantSet::ETHERAVB),
    rw(reg::CLL0, "CLL", !0, "K-bsp; reset K-qemu").reset(0x8000_0001).array(2)
        .on(VariantSet::ETHERAVB),
    ro(reg::VRR, "VRR", "K-qemu").reset(0xe300),
    // Interrupts. The reserved bits of the status registers are those the C driver documents.
    rw(reg::DIC, "DIC", DESCRIPTORS, "K-drv"),
    w0c(reg::DIS, "DIS", DESCRIPTORS, "K-drv"),
    rw(reg::EIC, "EIC", ERRORS, "K-drv"),
    w0c(reg::EIS, "EIS", ERRORS, "K-drv: 31:17 and 15:11 reserved").ignored(bit::EIS_QFS),
    rw(reg::RIC0, "RIC0", QUEUES, "K-drv"),
    w0c(reg::RIS0, "RIS0", QUEUES, "K-drv: 31:18 reserved"),
    rw(reg::RIC1, "RIC1", QUEUES_FIFO, "K-drv"),
    w0c(reg::RIS1, "RIS1", QUEUES_FIFO, "K-drv"),
    rw(reg::RIC2, "RIC2", QUEUES_FIFO, "K-drv"),
    w0c(reg::RIS2, "RIS2", QUEUES_FIFO, "K-drv: 30:18 reserved"),
    rw(reg::TIC, "TIC", TX, "K-drv"),
    w0c(reg::TIS, "TIS", TX, "K-drv: 31:20, 15:12, 7:4 reserved"),
    ro(reg::ISS, "ISS", "K-gen2, K-qnx"),
    rw(reg::RIC3, "RIC3", QUEUES, "K-ml: reset value 0 on RZ/G2L"),
    w0c(reg::RIS3, "RIS3", QUEUES, "K-ml"),
    rw(reg::CIE, "CIE", 0x000f_0101, "K-drv").on(VariantSet::MULTI_IRQ),
    rw(reg::GIC, "GIC", GPTP, "K-drv").on(VariantSet::ETHERAVB),
    w0c(reg::GIS, "GIS", GPTP, "K-drv: 15:10 reserved").on(VariantSet::ETHERAVB),
    rw(reg::GIL, "GIL", GPTP, "K-qnx").on(VariantSet::MULTI_IRQ),
    rw(reg::DIL, "DIL", DESCRIPTORS, "K-drv").on(VariantSet::MULTI_IRQ),
    rw(reg::EIL, "EIL", ERRORS, "K-qnx").on(VariantSet::MULTI_IRQ),
    rw(reg::TIL, "TIL", TX, "K-qnx").on(VariantSet::MULTI_IRQ),
    sets(reg::GIE, "GIE", reg::GIC, GPTP),
    clears(reg::GID, "GID", reg::GIC, GPTP),
    sets(reg::DIE, "DIE", reg::DIC, DESCRIPTORS),
    clears(reg::DID, "DID", reg::DIC, DESCRIPTORS),
    sets(reg::EIE, "EIE", reg::EIC, ERRORS),
    clears(reg::EID, "EID", reg::EIC, ERRORS),
    sets(reg::RIE0, "RIE0", reg::RIC0, QUEUES),
    clears(reg::RID0, "RID0", reg::RIC0, QUEUES),
    sets(reg::RIE1, "RIE1", reg::RIC1, QUEUES_FIFO),
    clears(reg::RID1, "RID1", reg::RIC1, QUEUES_FIFO),
    sets(reg::RIE2, "RIE2", reg::RIC2, QUEUES_FIFO),
    clears(reg::RID2, "RID2", reg::RIC2, QUEUES_FIFO),
    sets(reg::TIE, "TIE", reg::TIC, TX),
    clears(reg::TID, "TID", reg::TIC, TX),
    sets(reg::RIE3, "RIE3", reg::RIC3, QUEUES),
    clears(reg::RID3, "RID3", reg::RIC3, QUEUES),
    // gPTP.
    rw(reg::GCCR, "GCCR", 0x0079_033f, "K-drv, K-qnx; reset K-qemu").reset(0x2c)
        .on(VariantSet::ETHERAVB),
    rw(reg::GMTT, "GMTT", !0, "K-drv").on(VariantSet::ETHERAVB),
    rw(reg::GPTC, "GPTC", !0, "K-drv").on(VariantSet::ETHERAVB),
    rw(reg::GTI, "GTI", 0x0fff_ffff, "K-drv; reset K-qemu").reset(1).on(VariantSet::ETHERAVB),
    rw(reg::GTO0, "GTO0", 0x3fff_ffff, "K-drv").on(VariantSet::ETHERAVB),
    rw(reg::GTO0 + 4, "GTO1", !0, "K-drv").on(VariantSet::ETHERAVB),
    rw(reg::GTO0 + 8, "GTO2", 0xffff, "K-drv").on(VariantSet::ETHERAVB),
    ro(reg::GCPT, "GCPT", "K-drv").on(VariantSet::ETHERAVB),
    ro(reg::GCT0, "GCT", "K-drv").array(3).on(VariantSet::ETHERAVB),
    // E-MAC.
    rw(reg::ECMR, "ECMR", 0x06bf_0063, "K-drv, K-qnx; no magic packet on GbEth")
        .on(VariantSet::GBETH),
    rw(reg::ECMR, "ECMR", 0x04bf_0263, "K-drv, K-qnx").on(VariantSet::ETHERAVB),
    rw(reg::RFLR, "RFLR", 0x0003_ffff, "K-drv; A for the width"),
    Register::new(reg::ECSR, "ECSR", Access::WriteOneClears, "K-drv").writable(0x1f),
    rw(reg::ECSIPR, "ECSIPR", 0x1f, "K-drv"),
    rw(reg::PIR, "PIR", 0x7, "K-drv").ignored(bit::PIR_MDI),
    ro(reg::PSR, "PSR", "K-drv"),
    rw(reg::PIPR, "PIPR", 0x1, "K-drv"),
    rw(reg::CXR31, "CXR31", 0x9, "K-drv").on(VariantSet::GBETH),
    rw(reg::CXR35, "CXR35", 0xffff_0003, "K-drv").on(VariantSet::GBETH),
    rw(reg::APR, "APR", 0xffff, "K-drv"),
    rw(reg::MPR, "MPR", 0xffff, "K-drv"),
    counter(reg::PFTCR, "PFTCR", "K-drv; A for how it clears"),
    counter(reg::PFRCR, "PFRCR", "K-drv; A for how it clears"),
    rw(reg::PFTTLR, "PFTTLR", 0xffff, "K-drv"),
    ro(reg::PFTTCR, "PFTTCR", "K-drv"),
    rw(reg::GECMR, "GECMR", 0x30, "K-drv").on(VariantSet::GBETH),
    rw(reg::GECMR, "GECMR", 0x1, "K-drv").on(VariantSet::ETHERAVB),
    rw(reg::MAHR, "MAHR", !0, "K-drv"),
    rw(reg::MALR, "MALR", 0xffff, "K-drv"),
    counter(reg::TROCR, "TROCR", "K-drv, K-ml: reserved on Gen2").on(VariantSet::NOT_GEN2),
    counter(reg::CXR41, "CXR41", "K-drv").on(VariantSet::GBETH),
    counter(reg::CXR42, "CXR42", "K-drv").on(VariantSet::GBETH),
    counter(reg::CEFCR, "CEFCR", "K-drv"),
    counter(reg::FRECR, "FRECR", "K-drv"),
    counter(reg::TSFRCR, "TSFRCR", "K-drv"),
    counter(reg::TLFRCR, "TLFRCR", "K-drv"),
    counter(reg::RFCR, "RFCR", "K-drv"),
    counter(reg::MAFCR, "MAFCR", "K-drv"),
    // TOE.
    rw(reg::CSR0, "CSR0", bit::CSR0_TPE | bit::CSR0_RPE, "K-drv").on(VariantSet::GBETH),
    rw(reg::CSR1, "CSR1", 0x0f70_0071, "K-drv").on(VariantSet::GBETH),
    rw(reg::CSR2, "CSR2", 0x0f70_0071, "K-drv").on(VariantSet::GBETH),
];

/// Words in the part of the window that holds registers.
const WORDS: usize = 0x80c / 4;

/// Values of all registers of one device.
#[derive(Debug)]
pub struct RegisterFile {
    values: Vec<u32>,
    /// Index into [`TABLE`] by word.
    index: Vec<Option<u16>>,
}

impl RegisterFile {
    /// The registers `variant` has, at their reset values.
    pub fn new(variant: &Variant) -> Self {
        let mut index = vec![None; WORDS];
        for (i, r) in TABLE
            .iter()
            .enumerate()
            .filter(|(_, r)| r.on.intersects(variant.set))
        {
            for n in 0..r.count {
                index[usize::from(r.offset / 4 + n)] = Some(i as u16);
            }
        }
        let mut file = Self {
            values: vec![0; WORDS],
            index,
        };
        file.reset();
        file
    }

    /// Sets every register to its reset value.
    pub fn reset(&mut self) {
        for (value, index) in self.values.iter_mut().zip(&self.index) {
            *value = index.map_or(0, |i| TABLE[usize::from(i)].reset);
        }
    }

    /// The register at byte offset `offset`, if there is one.
    pub fn lookup(&self, offset: u64) -> Option<&'static Register> {
        let word = usize::try_from(offset / 4).ok()?;
        self.index
            .get(word)
            .copied()
            .flatten()
            .map(|i| &TABLE[usize::from(i)])
    }

    /// Name of the register at `offset`, with its index if it is one of an array.
    pub fn name(&self, offset: u64) -> String {
        match self.lookup(offset) {
            None => format!("{offset:#05x}"),
            Some(r) if r.count == 1 => r.name.to_owned(),
            Some(r) => format!("{}{}", r.name, (offset - u64::from(r.offset)) / 4),
        }
    }

    /// JSON object with the stored value of every register.
    pub fn json(&self) -> Value {
        let existing = (0u64..).zip(&self.values).zip(&self.index);
        existing
            .filter(|(_, index)| index.is_some())
            .map(|((word, value), _)| (self.name(word * 4), (*value).into()))
            .collect::<Map<_, _>>()
            .into()
    }

    /// Stores the values of a JSON object like that of [`RegisterFile::json`].
    pub fn set_json(&mut self, text: &str) -> Result<(), String> {
        let values: BTreeMap<String, u32> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        for (name, value) in values {
            let mut offsets = (0u16..).step_by(4).take(self.values.len());
            let offset = offsets.find(|&offset| {
                self.lookup(offset.into()).is_some() && self.name(offset.into()) == name
            });
            self.set(
                offset.ok_or_else(|| format!("{name}: no such register"))?,
                value,
            );
        }
        Ok(())
    }

    /// Stored value of the register at `offset`.
    pub fn get(&self, offset: u16) -> u32 {
        self.values[usize::from(offset / 4)]
    }

    /// Stores a value, ignoring access rules: this is the device's own side.
    pub fn set(&mut self, offset: u16, value: u32) {
        self.values[usize::from(offset / 4)] = value;
    }

    /// Sets bits; returns true if all of them were set before.
    pub fn raise(&mut self, offset: u16, bits: u32) -> bool {
        let old = self.get(offset);
        self.set(offset, old | bits);
        old & bits == bits
    }

    /// Adds to an event counter, which sticks at its maximum (A).
    pub fn count(&mut self, offset: u16, n: u32) {
        self.set(offset, self.get(offset).saturating_add(n));
    }
}
