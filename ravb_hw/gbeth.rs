// SPDX-License-Identifier: GPL-2.0

//! The ways of GbEth: RZ/G2L, RZ/G2UL, RZ/G3S, RZ/V2L, RZ/Five.
//!
//! One queue, one interrupt line, half duplex and 10 Mbit/s, and a checksum engine (TOE).

use kernel::{
    io::{
        mem::IoMem,
        poll,
        Io, //
    },
    prelude::*,
    time::Delta, //
};

use super::*;

/// The registers up to those of the TOE.
pub(super) const WINDOW: usize = 0x80c;

/// The ways of GbEth.
pub(super) struct GbEth;

impl Generation for GbEth {
    fn readable(&self) -> &'static [usize] {
        &[
            CXR31::OFFSET,
            CXR35::OFFSET,
            CSR0::OFFSET,
            CSR1::OFFSET,
            CSR2::OFFSET,
        ]
    }

    fn init_dmac(&self, regs: &Regs<'_>) {
        let io = regs.io();

        io.write_reg(RCR::zeroed().with_const_rfcl::<0x6000>());
        io.write(RTC, (0x7ffc_0000 | regs.hw.variant.max_rx_frame).into());
        io.write_reg(TGC::zeroed().with_const_tbd::<0x2222>());
        io.write_reg(TCCR::zeroed());
    }

    fn init_emac_first(&self, regs: &Regs<'_>) {
        let io = regs.io();
        let mii = regs.hw.wiring.interface == Interface::MII;

        // The first access to the E-MAC after a reset: otherwise it misbehaves.
        let cxr35 = CXR35::zeroed().with_const_halfcyc_clksw::<1000>();
        io.write_reg(if mii {
            cxr35.with_const_sel_xmii::<2>()
        } else {
            cxr35.with_const_sel_xmii::<0>()
        });
        io.update(CXR31, |cxr31| {
            cxr31.with_sel_link0(!mii).with_sel_link1(false)
        });
    }

    /// Sets up the checksum engine.
    ///
    /// Received frames are always verified: whether the result is used is decided when a frame is
    /// passed up, so that nothing depends on which setting a frame was received under.
    fn init_emac_last(&self, regs: &Regs<'_>, tx_checksum: bool) -> Result {
        let toe = toe(regs)?;

        toe.write_reg(CSR0::zeroed());
        let idle = wait(toe, |csr0| !csr0.tpe() && !csr0.rpe());
        if idle.is_ok() {
            toe.write_reg(tx_checksums(tx_checksum));
            toe.write_reg(
                CSR2::zeroed()
                    .with_tcp4(true)
                    .with_udp4(true)
                    .with_icmp4(true)
                    .with_tcp6(true)
                    .with_udp6(true)
                    .with_icmp6(true),
            );
        }
        // In any case: frames stop for good while a direction is off.
        toe.write_reg(both());
        idle.inspect_err(|_| dev_err!(regs.hw.dev, "checksum engine does not stop\n"))
    }

    fn emac_mode(&self, full_duplex: bool) -> ECMR {
        ECMR::zeroed()
            .with_dm(full_duplex)
            .with_rxf(true)
            .with_zpf(true)
            .with_rcpt(true)
    }

    fn speed(&self, speed: u32) -> GECMR {
        let gecmr = GECMR::zeroed();
        match speed {
            10 => gecmr.with_const_speed::<0>(),
            100 => gecmr.with_const_speed::<1>(),
            _ => gecmr.with_const_speed::<2>(),
        }
    }

    fn set_tx_checksum(&self, regs: &Regs<'_>, on: bool) -> Result {
        let toe = toe(regs)?;

        toe.write_reg(both().with_tpe(false));
        let idle = wait(toe, |csr0| !csr0.tpe());
        if idle.is_ok() {
            toe.write_reg(tx_checksums(on));
        }
        toe.write_reg(both());
        idle
    }

    // There is one queue, so that the masks are its own, and no lock is needed. Should an unmasking
    // poll on another CPU be overtaken, the poll that was scheduled with the masking unmasks again.

    fn mask_queue(&self, regs: &Regs<'_>, _queue: QueueId) {
        regs.io().write_reg(RIC0::zeroed());
        regs.io().write_reg(TIC::zeroed());
    }

    fn unmask_queue(&self, regs: &Regs<'_>, queue: QueueId) {
        regs.io().write(RIC0, queue.bit().into());
        regs.io().write(TIC, queue.bit().into());
    }

    fn collect(&self, regs: &Regs<'_>, counters: &HwCounters) {
        let io = regs.io();

        collect!(io, TROCR, counters.tx_timeouts);
        collect!(io, CXR41, counters.collisions);
        collect!(io, CXR42, counters.carrier_errors);
        collect!(io, CEFCR, counters.rx_crc_errors);
        collect!(io, FRECR, counters.rx_frame_errors);
        collect!(io, RFCR, counters.rx_frame_errors);
        collect!(io, TSFRCR, counters.rx_length_errors);
        collect!(io, TLFRCR, counters.rx_length_errors);
    }
}

/// Both directions of the checksum engine on.
fn both() -> CSR0 {
    CSR0::zeroed().with_tpe(true).with_rpe(true)
}

/// The registers of the checksum engine.
fn toe<'a, 'bound>(regs: &'a Regs<'bound>) -> Result<&'a IoMem<'bound, WINDOW>> {
    regs.hw.toe.as_ref().ok_or(ENODEV)
}

/// Waits until the engine has stopped, which should take microseconds.
fn wait(toe: &IoMem<'_, WINDOW>, done: impl Fn(CSR0) -> bool) -> Result {
    poll::read_poll_timeout(
        || Ok(toe.read(CSR0)),
        |csr0| done(*csr0),
        Delta::from_micros(10),
        HW_TIMEOUT,
    )
    .map(|_| ())
}

/// Which checksums are computed.
fn tx_checksums(on: bool) -> CSR1 {
    CSR1::zeroed()
        .with_tcp4(on)
        .with_udp4(on)
        .with_tcp6(on)
        .with_udp6(on)
}
