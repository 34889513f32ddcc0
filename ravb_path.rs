// SPDX-License-Identifier: GPL-2.0

//! The data path: rings, NAPI contexts, interrupt lines, and the hardware between CONFIG and RESET
//! mode. It is made anew when the interface is opened, when the ring sizes change, and when a
//! transmit queue is stuck; the PHY knows nothing of that.

use kernel::{
    prelude::*,
    sync::Arc,
    types::ScopeGuard, //
};

use crate::{
    net::{
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

/// What moves frames: everything that a change of the ring sizes makes anew.
pub(crate) struct DataPath<'bound> {
    lines: KVec<irq::Line<'bound, Interrupt<'bound>>>,
    napis: Napis<'bound>,
    /// The hardware looks at it as long as it is in OPERATION mode.
    table: BaseTable,
}

/// The queues of a device that is being opened or closed.
type Queues<T> = [Option<T>; MAX_QUEUES];

impl<'bound> DataPath<'bound> {
    /// Sets up rings and interrupts and lets frames flow.
    pub(crate) fn start(
        dev: &mut Locked<'_, Ravb<'bound>>,
        regs: &Arc<Regs<'bound>>,
    ) -> Result<Self> {
        let mut napis: Napis<'bound> = [const { None }; MAX_QUEUES];
        let path = regs
            .queues()
            .try_for_each(|queue| {
                napis[queue.slot()] = Some(Napi::add(dev, queue.index())?);
                Ok(())
            })
            .and_then(|()| Self::start_queues(dev, regs, &napis));
        if path.is_err() {
            delete(dev, &napis);
        }
        path
    }

    fn start_queues(
        dev: &mut Locked<'_, Ravb<'bound>>,
        regs: &Arc<Regs<'bound>>,
        napis: &Napis<'bound>,
    ) -> Result<Self> {
        let ravb = dev.device();
        let sizes = dev.state().ring_sizes;
        let table = BaseTable::new(ravb.hw.dev())?;
        let mut polled: Queues<Queue<'bound>> = [const { None }; MAX_QUEUES];
        let mut transmitted: Queues<TxQueue<'bound>> = [const { None }; MAX_QUEUES];

        for id in regs.queues() {
            let napi = napis[id.slot()].as_ref().ok_or(EINVAL)?;
            let rx = RxQueue::new(dev, napi, id, sizes.rx)?;
            let (tx, reclaim) = ravb_tx::queue(id, regs, &ravb.stats, sizes.tx)?;

            table.link(ravb_desc::dbat_rx(id.slot()), rx.ring())?;
            table.link(ravb_desc::dbat_tx(id.slot()), tx.ring())?;
            transmitted[id.slot()] = Some(tx);
            polled[id.slot()] = Some(Queue {
                id,
                regs: regs.clone(),
                tx: reclaim,
                rx,
            });
        }

        let this = Self {
            lines: Self::request_lines(ravb, regs, napis)?,
            napis: napis.clone(),
            table,
        };
        this.enable(dev, polled);
        if let Err(error) = this.start_hardware(dev, regs) {
            // The queues go before the caller removes the NAPI contexts.
            drop(this.disable(dev));
            return Err(error);
        }

        for id in regs.queues() {
            if let Some(queue) = transmitted[id.slot()].take() {
                dev.install_tx_queue(id.index(), queue);
            }
        }
        dev.wake_tx();
        Ok(this)
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

    fn start_hardware(
        &self,
        dev: &mut Locked<'_, Ravb<'bound>>,
        regs: &Arc<Regs<'bound>>,
    ) -> Result {
        let ravb = dev.device();
        let mut up = ravb.hw.up.lock();
        // On failure, whatever was set up stops here.
        let reset = ScopeGuard::new(|| {
            let _ = regs.set_mode(Mode::Reset);
        });

        regs.set_mode(Mode::Reset)?;
        regs.enter_config()?;
        regs.init_dmac(self.table.address()?);
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
    pub(crate) fn stop(self, dev: &mut Locked<'_, Ravb<'bound>>, regs: &Regs<'bound>) {
        let ravb = dev.device();

        regs.mask_all();
        // The queues are kept until the hardware does not look at them any more.
        let queues = self.disable(dev);
        // The last poll may have unmasked its queue. No handler runs after this.
        regs.mask_all();
        let Self {
            lines,
            napis,
            table,
        } = self;
        drop(lines);
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
        delete(dev, &napis);
    }
}

/// Removes the NAPI contexts of a device.
fn delete<'bound>(dev: &Locked<'_, Ravb<'bound>>, napis: &Napis<'bound>) {
    for napi in napis.iter().flatten() {
        napi.delete(dev);
    }
}
