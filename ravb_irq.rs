// SPDX-License-Identifier: GPL-2.0

//! The interrupt handler, and what it schedules.

use kernel::{
    io::Io,
    irq::{
        Handler,
        IrqReturn, //
    },
    prelude::*,
    sync::Arc, //
};

use crate::{
    net::{
        napi::{
            self,
            Napi,
            Poll, //
        },
        netdev::NetDevice, //
    },
    ravb_desc,
    ravb_hw::{
        Regs,
        ECSR,
        EIS,
        ISS,
        RIS2, //
    },
    ravb_rx::RxQueue,
    ravb_stats::DeviceStats,
    ravb_tx::TxReclaim,
    Ravb, //
};

/// What is polled: both directions of a queue.
pub(crate) struct Queue<'bound> {
    pub(crate) regs: Arc<Regs<'bound>>,
    pub(crate) tx: TxReclaim<'bound>,
    pub(crate) rx: RxQueue<'bound, Self>,
}

impl<'bound> Poll for Queue<'bound> {
    type Device = Ravb<'bound>;

    fn poll(&mut self, cx: &napi::Context<'_, Self::Device>) -> usize {
        // Before the rings are looked at: what comes later raises the interrupt anew.
        self.regs.clear_queue();
        self.tx.poll(cx);
        if cx.budget() == 0 {
            return 0;
        }
        self.rx.poll(cx)
    }

    fn rearm(&mut self, _dev: &NetDevice<Self::Device>) {
        self.regs.unmask_queue();
    }
}

/// The handler of the one interrupt line of GbEth, which may be shared.
///
/// It is requested while the interface is up only. So the clocks are on whenever it runs, also when
/// it runs on behalf of somebody else.
pub(crate) struct Interrupt<'bound> {
    pub(crate) regs: Arc<Regs<'bound>>,
    pub(crate) napi: Arc<Napi<Queue<'bound>>>,
    pub(crate) stats: Arc<DeviceStats>,
}

impl Handler for Interrupt<'_> {
    fn handle(&self) -> IrqReturn {
        let iss = self.regs.io().read(ISS);
        if !(iss.frs() || iss.fts() || iss.es() || iss.ms()) {
            return IrqReturn::None;
        }
        if iss.frs() || iss.fts() {
            // Masked whether or not it can be scheduled: a level that stays would never end.
            self.regs.mask_queue();
            self.napi.schedule();
        }
        if iss.es() {
            self.lost_frames();
        }
        if iss.ms() {
            self.emac();
        }
        IrqReturn::Handled
    }
}

impl Interrupt<'_> {
    /// Frames were lost for want of a descriptor, or of room in the FIFO.
    fn lost_frames(&self) {
        let io = self.regs.io();
        let ris2 = io.read(RIS2);

        // Zeroes clear what is handled here; ones leave the other queues alone.
        io.write_reg(RIS2::zeroed().with_const_qff::<{ 0x3_ffff & !(1 << ravb_desc::BE) }>());
        io.write_reg(EIS::zeroed().with_const_errors::<0x7ff>());
        if ris2.qff().get() & 1 << ravb_desc::BE != 0 {
            self.stats.rx_over_errors.add(1);
        }
        if ris2.rfff() {
            self.stats.rx_fifo_errors.add(1);
        }
    }

    /// An event of the MAC.
    fn emac(&self) {
        let io = self.regs.io();
        let ecsr = io.read(ECSR);

        io.write_reg(ecsr);
        if ecsr.icd() {
            self.stats.carrier_events.add(1);
        }
    }
}
