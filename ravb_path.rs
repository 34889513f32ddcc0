// SPDX-License-Identifier: GPL-2.0

//! The data path: rings, NAPI contexts, interrupt lines, and the hardware between CONFIG and RESET
//! mode. It is made when the interface is opened. Its rings are replaced when their sizes change,
//! and when a transmit queue is stuck; the PHY knows nothing of that.

use kernel::{
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc, //
    },
    types::ScopeGuard, //
};

use crate::{
    net::{
        ethtool::RingSizes,
        irq,
        napi::Napi,
        netdev::{
            Features,
            Locked, //
        }, //
    },
    ravb_desc,
    ravb_hw::{
        Cause,
        Mode,
        QueueId,
        Regs,
        MAX_QUEUES, //
    },
    ravb_irq::{
        Interrupt,
        Napis,
        Queue, //
    },
    ravb_ring::BaseTable,
    ravb_rx::RxQueue,
    ravb_tx::{
        self,
        TxQueue, //
    },
    Ravb, //
};

/// What moves frames while the interface is up.
pub(crate) struct DataPath<'bound> {
    regs: Arc<Regs<'bound>>,
    lines: KVec<irq::Line<'bound, Interrupt<'bound>>>,
    napis: Napis<'bound>,
    /// What the hardware finds the rings by; there is none while it stands still.
    table: Option<BaseTable>,
}

/// What a device has of each queue.
type Queues<T> = [Option<T>; MAX_QUEUES];

/// Rings of all queues that are not in use yet.
struct Rings<'bound> {
    table: BaseTable,
    polled: Queues<Queue<'bound>>,
    transmitted: Queues<TxQueue<'bound>>,
}

impl<'bound> Rings<'bound> {
    fn new(
        dev: &Locked<'_, Ravb<'bound>>,
        regs: &Arc<Regs<'bound>>,
        napis: &Napis<'bound>,
        sizes: RingSizes,
    ) -> Result<Self> {
        let mut this = Self {
            table: BaseTable::new(dev.hw.dev())?,
            polled: [const { None }; MAX_QUEUES],
            transmitted: [const { None }; MAX_QUEUES],
        };

        for (id, napi) in QueueId::all().zip(napis) {
            let Some(napi) = napi else { continue };
            let rx = RxQueue::new(dev, napi, id, sizes.rx)?;
            let (tx, poll) = ravb_tx::queue(id, regs, &dev.stats, sizes.tx)?;

            this.table.link(ravb_desc::dbat_rx(id.slot()), rx.ring())?;
            this.table.link(ravb_desc::dbat_tx(id.slot()), tx.ring())?;
            this.transmitted[id.slot()] = Some(tx);
            this.polled[id.slot()] = Some(Queue {
                id,
                regs: regs.clone(),
                tx: poll,
                rx,
            });
        }
        Ok(this)
    }
}

impl<'bound> DataPath<'bound> {
    /// Sets up rings and interrupts of as many queues as the device uses, and lets frames flow.
    pub(crate) fn start(dev: &mut Locked<'_, Ravb<'bound>>) -> Result<Self> {
        let regs = Arc::new(Regs::new(&dev.hw)?, GFP_KERNEL)?;
        let mut napis: Napis<'bound> = [const { None }; MAX_QUEUES];
        for queue in QueueId::all().take(dev.queues().into()) {
            napis[queue.slot()] = Some(Napi::new(queue.index())?);
        }
        let sizes = dev.state().ring_sizes;
        let rings = Rings::new(dev, &regs, &napis, sizes)?;
        let mut this = Self {
            lines: Self::request_lines(dev, &regs, &napis)?,
            regs,
            napis,
            table: None,
        };
        this.run(dev, rings)?;
        Ok(this)
    }

    /// The registers, which are there while the interface is up.
    pub(crate) fn regs(&self) -> &Regs<'bound> {
        &self.regs
    }

    /// Whether frames flow; they do unless [`DataPath::replace_rings`] failed half-way.
    pub(crate) fn is_running(&self) -> bool {
        self.table.is_some()
    }

    /// Replaces the rings. Nothing has changed if there is no memory for new ones.
    pub(crate) fn replace_rings(
        &mut self,
        dev: &mut Locked<'_, Ravb<'bound>>,
        sizes: RingSizes,
    ) -> Result {
        let rings = Rings::new(dev, &self.regs, &self.napis, sizes)?;
        self.halt(dev);
        self.run(dev, rings)
    }

    /// Receives nothing but magic packets, which wake the system, until the rings are replaced.
    pub(crate) fn look_for_magic(&mut self, dev: &mut Locked<'_, Ravb<'bound>>) -> Result {
        self.regs.mask_all();
        // The last poll may have unmasked its queue; none is scheduled after this.
        let queues = self.disable(dev);
        self.regs.mask_all();
        self.enable(dev, queues);
        self.regs.unmask_magic();
        dev.emac.lock().look_for_magic();
        self.set_wake(dev, true)
    }

    /// Lets the line that tells of magic packets wake the system, or does not any more.
    pub(crate) fn set_wake(&self, dev: &Locked<'_, Ravb<'bound>>, wake: bool) -> Result {
        self.lines
            .iter()
            .zip(dev.hw.variant.lines)
            .filter(|(_, spec)| matches!(spec.cause, Cause::All | Cause::Emac))
            .try_for_each(|(line, _)| line.set_wake(wake))
    }

    fn request_lines(
        ravb: &Ravb<'bound>,
        regs: &Arc<Regs<'bound>>,
        napis: &Napis<'bound>,
    ) -> Result<KVec<irq::Line<'bound, Interrupt<'bound>>>> {
        let specs = ravb.hw.variant.lines;
        let mut lines = KVec::with_capacity(specs.len(), GFP_KERNEL)?;

        for (number, spec) in ravb.irqs.iter().zip(specs) {
            let handler = Interrupt {
                cause: spec.cause,
                regs: regs.clone(),
                napis: napis.clone(),
                emac: ravb.emac.clone(),
                stats: ravb.stats.clone(),
                vain: Atomic::new(0),
            };
            let line = number.request(spec.cause == Cause::All, spec.label, handler)?;
            lines.push(line, GFP_KERNEL)?;
        }
        Ok(lines)
    }

    /// The interrupt that a queue raises.
    fn irq_of(ravb: &Ravb<'_>, id: QueueId) -> u32 {
        ravb.irqs
            .iter()
            .zip(ravb.hw.variant.lines)
            .find(|(_, line)| matches!(line.cause, Cause::All) || line.cause == Cause::Queue(id))
            .map_or(0, |(number, _)| number.get())
    }

    /// Lets the queues be polled.
    fn enable(&self, dev: &mut Locked<'_, Ravb<'bound>>, queues: Queues<Queue<'bound>>) {
        for (napi, queue) in self.napis.iter().zip(queues) {
            if let (Some(napi), Some(queue)) = (napi, queue) {
                let irq = Self::irq_of(dev, queue.id);
                queue.rx.will_be_polled();
                napi.enable(dev, irq, queue);
            }
        }
    }

    /// Waits until no queue is polled, and returns them.
    fn disable(&self, dev: &mut Locked<'_, Ravb<'bound>>) -> Queues<Queue<'bound>> {
        self.napis
            .each_ref()
            .map(|napi| napi.as_ref().and_then(|napi| napi.disable(dev)))
    }

    /// Lets frames flow along `rings`.
    fn run(&mut self, dev: &mut Locked<'_, Ravb<'bound>>, rings: Rings<'bound>) -> Result {
        let Rings {
            table,
            polled,
            transmitted,
        } = rings;

        self.enable(dev, polled);
        if let Err(error) = self.start_hardware(dev, &table) {
            drop(self.disable(dev));
            return Err(error);
        }
        self.table = Some(table);
        for (id, queue) in QueueId::all().zip(transmitted) {
            if let Some(queue) = queue {
                dev.install_tx_queue(id.index(), queue);
            }
        }
        dev.wake_tx();
        Ok(())
    }

    fn start_hardware(&self, dev: &mut Locked<'_, Ravb<'bound>>, table: &BaseTable) -> Result {
        let ravb = dev.device();
        let regs = &self.regs;
        let mut up = ravb.hw.up.lock();
        // On failure, whatever was set up stops here.
        let reset = ScopeGuard::new(|| regs.reset());

        regs.set_mode(Mode::Reset)?;
        regs.enter_config()?;
        regs.init_dmac(table.address()?, dev.queues());
        regs.set_mode(Mode::Operation)?;
        regs.init_emac(
            dev.address(),
            dev.features().contains(Features::TX_CHECKSUM),
        )?;
        reset.dismiss();
        *up = true;
        drop(up);

        ravb.emac.lock().start(regs.clone(), dev.is_promiscuous());
        Ok(())
    }

    /// Stops everything that [`DataPath::start`] started.
    pub(crate) fn stop(mut self, dev: &mut Locked<'_, Ravb<'bound>>) {
        self.halt(dev);
        // The interrupt lines go with `self`.
    }

    /// Stops the hardware and lets the rings go.
    fn halt(&mut self, dev: &mut Locked<'_, Ravb<'bound>>) {
        let Some(table) = self.table.take() else {
            return;
        };
        let ravb = dev.device();
        let regs = &self.regs;

        regs.mask_all();
        // The queues are kept until the hardware does not look at them any more.
        let queues = self.disable(dev);
        // The last poll may have unmasked its queue.
        regs.mask_all();
        dev.remove_tx_queues();

        let (has_link, emac) = {
            let mut emac = ravb.emac.lock();
            emac.collect(&ravb.stats.hw);
            (emac.has_link(), emac.stop())
        };
        drop(emac);

        let mut up = ravb.hw.up.lock();
        // Without a link, frames that are under way never come to an end.
        if has_link && regs.stop_dma().is_err() {
            dev_warn!(
                ravb.hw.dev(),
                "DMA does not come to an end, resetting the device\n"
            );
        }
        regs.halt();
        *up = false;
        drop(up);

        drop(queues);
        drop(table);
    }
}
