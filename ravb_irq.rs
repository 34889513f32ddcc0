// SPDX-License-Identifier: GPL-2.0

//! The interrupt handlers, and what they schedule.

use kernel::{
    io::Io,
    irq::{
        Handler,
        IrqReturn, //
    },
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        barrier::{
            mb,
            Full, //
        },
        Arc, //
    }, //
};

use crate::{
    net::{
        napi::{
            self,
            Napi,
            Poll, //
        },
        netdev::NetDevice,
        pm, //
    },
    ravb_hw::{
        Cause,
        QueueId,
        Regs,
        ECSR,
        ISS,
        MAX_QUEUES, //
    },
    ravb_link::EmacLock,
    ravb_rx::RxQueue,
    ravb_stats::DeviceStats,
    ravb_tx::TxPoll,
    Ravb, //
};

/// What is polled: both directions of a queue.
pub(crate) struct Queue<'bound> {
    pub(crate) id: QueueId,
    pub(crate) regs: Arc<Regs<'bound>>,
    pub(crate) tx: TxPoll<'bound>,
    pub(crate) rx: RxQueue<'bound, Self>,
}

impl<'bound> Poll for Queue<'bound> {
    type Device = Ravb<'bound>;

    fn poll(&mut self, cx: &napi::Context<'_, Self::Device>) -> usize {
        // Polls that find nothing are many where interrupts are deferred. After an interrupt the
        // status is cleared in any case: of what a sender took back nothing is left but that.
        if cx.continues() && self.tx.is_idle() && self.rx.is_idle() {
            return 0;
        }
        // Before the rings are looked at, in the order of the device as well: what comes later
        // raises the interrupt anew.
        self.regs.clear_queue(self.id);
        mb(Full);
        self.tx.poll(cx);
        if cx.budget() == 0 {
            return 0;
        }
        self.rx.poll(cx)
    }

    fn rearm(&self, _dev: &NetDevice<Self::Device>) {
        self.regs.unmask_queue(self.id);
    }
}

/// The NAPI contexts of a device, one for each queue that it has.
pub(crate) type Napis<'bound> = [Option<Arc<Napi<Queue<'bound>>>>; MAX_QUEUES];

/// The handler of an interrupt line.
///
/// Lines are requested while the interface is up only. So the clocks are on whenever a handler
/// runs, also when it runs on behalf of another device that shares the line.
pub(crate) struct Interrupt<'bound> {
    pub(crate) cause: Cause,
    pub(crate) regs: Arc<Regs<'bound>>,
    pub(crate) napis: Napis<'bound>,
    pub(crate) emac: Arc<EmacLock<'bound>>,
    pub(crate) stats: Arc<DeviceStats>,
    /// How many interrupts in a row brought nothing new.
    pub(crate) vain: Atomic<u32>,
}

impl Handler for Interrupt<'_> {
    fn handle(&self) -> IrqReturn {
        let (new, result) = match self.cause {
            // The line is the queue's alone: there is nothing to ask the hardware.
            Cause::Queue(queue) => (self.schedule(queue), IrqReturn::Handled),
            Cause::All => self.handle_any(true),
            Cause::Errors => self.handle_any(false),
            Cause::Emac => {
                self.emac();
                (true, IrqReturn::Handled)
            }
        };
        self.watch_for_storm(new);
        result
    }
}

impl Interrupt<'_> {
    /// Handles whatever is pending, frames if there is no other line for them. Returns also whether
    /// there was something new.
    fn handle_any(&self, frames: bool) -> (bool, IrqReturn) {
        let iss = self.regs.io().read(ISS);
        let frames = frames && (iss.frs() || iss.fts());
        let mut new = iss.es() || iss.ms();

        if !(frames || new) {
            return (false, IrqReturn::None);
        }
        if frames {
            for queue in self.regs.pending_queues() {
                new |= self.schedule(queue);
            }
        }
        if iss.es() {
            self.lost_frames();
        }
        if iss.ms() {
            self.emac();
        }
        (new, IrqReturn::Handled)
    }

    /// Lets a queue be polled, and returns whether that was not yet so.
    fn schedule(&self, queue: QueueId) -> bool {
        // Masked whether or not it can be scheduled: a level that stays would never end.
        self.regs.mask_queue(queue);
        let napi = self.napis[queue.slot()].as_ref();
        napi.is_some_and(|napi| napi.schedule())
    }

    /// Ends what does not end by itself.
    ///
    /// An interrupt in vain is nothing special: both lines of a queue were high, or another device
    /// shares the line. When many follow one another, the line may be high for a cause that was
    /// enabled by nobody here, and would stay so.
    #[inline]
    fn watch_for_storm(&self, new: bool) {
        /// More than happen by chance, and soon over.
        const STORM: u32 = 64;

        let vain = self.vain.load(Relaxed);
        if !new {
            // Nobody else writes it: the handler of a line does not run twice at a time.
            self.vain.store(vain + 1, Relaxed);
            if vain + 1 >= STORM {
                self.end_storm();
            }
        } else if vain != 0 {
            self.vain.store(0, Relaxed);
        }
    }

    #[cold]
    fn end_storm(&self) {
        self.vain.store(0, Relaxed);
        self.regs.mask_strays();
        // Their masks are written whole where that does not reach a single bit.
        for queue in self.regs.queues() {
            self.schedule(queue);
        }
    }

    /// Frames were lost for want of a descriptor, or of room in the FIFO.
    fn lost_frames(&self) {
        let losses = self.regs.take_losses();

        for queue in losses.queues {
            self.stats.rx(queue).over_errors.add(1);
        }
        if losses.fifo {
            self.stats.rx_fifo_errors.add(1);
        }
    }

    /// An event of the MAC.
    fn emac(&self) {
        let io = self.regs.io();
        let ecsr = io.read(ECSR);

        io.write_reg(ecsr);
        if ecsr.mpd() {
            pm::wakeup_event(self.regs.hw().dev());
        }
        if ecsr.icd() {
            self.stats.carrier_events.add(1);
        }
        if ecsr.lchng() {
            self.emac.lock().set_link_pin(self.regs.link_pin());
        }
    }
}
