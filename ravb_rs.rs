// SPDX-License-Identifier: GPL-2.0

//! Renesas Ethernet AVB and Gigabit Ethernet driver.
//!
//! The controllers of the RZ/G2L family (GbEth) and of R-Car and RZ/V2M (EtherAVB) share a DMA
//! controller, which moves frames between memory and a MAC along rings of descriptors. This driver
//! serves both.
//!
//! Where to begin reading: reception is in [`ravb_rx`], transmission in [`ravb_tx`], the registers
//! are in [`ravb_hw`]. This file says how a device is set up and taken down. `Documentation/` has
//! the whole picture.

mod bindings;
mod net;
mod ravb_desc;
mod ravb_ethtool;
mod ravb_frame;
mod ravb_hw;
mod ravb_irq;
mod ravb_link;
mod ravb_path;
mod ravb_ring;
mod ravb_rx;
mod ravb_stats;
mod ravb_tx;

use kernel::{
    clk::{
        Clk,
        OptionalClk, //
    },
    device::{
        Bound,
        Core,
        Device, //
    },
    dma::DmaMask,
    of,
    platform,
    prelude::*,
    sync::{
        atomic::Atomic,
        new_spinlock_irq,
        Arc, //
    },
    time::Delta, //
};

use net::{
    ethtool::{
        Messages,
        RingSizes, //
    },
    irq,
    mdio,
    netdev::{
        self,
        Features,
        Locked,
        NetDevice,
        TxQueueRef,
        Xmit, //
    },
    phy::{
        self,
        Interface,
        Link,
        LinkHandler, //
    },
    platform::SystemOps,
    pm,
    reset,
    skbuff::SkBuff, //
};
use ravb_hw::{
    Hw,
    LinkPin,
    Mode,
    QueueId,
    Regs,
    Variant,
    Wiring, //
};
use ravb_link::{
    Emac,
    EmacLock,
    MdioPins, //
};
use ravb_path::DataPath;
use ravb_stats::DeviceStats;
use ravb_tx::TxQueue;

/// How long an unused device stays powered, in case it is used again.
const AUTOSUSPEND_DELAY: Delta = Delta::from_millis(100);

/// Ring sizes to begin with.
const DEFAULT_RING_SIZES: RingSizes = RingSizes { rx: 1024, tx: 256 };

/// What frames are copied to begin with, in bytes: none, because copying took 3 % more instructions
/// for frames of 60 bytes. What cache maintenance costs on hardware, a count does not show.
const DEFAULT_RX_COPYBREAK: u32 = 0;

/// A device, as all parts of the driver share it.
struct Ravb<'bound> {
    hw: Arc<Hw<'bound>>,
    /// One for each of the lines of the variant.
    irqs: KVec<irq::Number<'bound>>,
    stats: Arc<DeviceStats>,
    emac: Arc<EmacLock<'bound>>,
    /// Where the hardware recognises magic packets.
    wakeup: Option<pm::Wakeup<'bound>>,
    /// The longest frame that is copied when it is received, with its trailer, in bytes.
    rx_copybreak: Atomic<u32>,
    messages: Messages,
}

impl Ravb<'_> {
    /// All that is counted, brought up to date.
    fn stats(&self) -> &DeviceStats {
        self.emac.lock().collect(&self.stats.hw);
        &self.stats
    }
}

/// What RTNL protects.
struct State<'bound> {
    ring_sizes: RingSizes,
    /// Present while the interface is up.
    phy: Option<phy::Connection>,
    /// Present while the interface is up and the system awake.
    path: Option<DataPath<'bound>>,
}

/// Replaces the rings by rings of these sizes; the PHY stays as it is.
fn replace_rings<'bound>(dev: &mut Locked<'_, Ravb<'bound>>, sizes: RingSizes) -> Result {
    let Some(mut path) = dev.state().path.take() else {
        dev.state().ring_sizes = sizes;
        return Ok(());
    };
    let result = path.replace_rings(dev, sizes);
    let running = path.is_running();

    let state = dev.state();
    state.path = Some(path);
    if result.is_ok() {
        state.ring_sizes = sizes;
    } else if !running {
        give_up(dev);
    }
    result
}

/// Changes the number of queues, or leaves it as it was.
fn set_queues<'bound>(dev: &mut Locked<'_, Ravb<'bound>>, queues: u16) -> Result {
    let old = dev.queues();
    let Some(path) = dev.state().path.take() else {
        return dev.set_queues(queues);
    };
    path.stop(dev);

    let changed = dev
        .set_queues(queues)
        .and_then(|()| DataPath::start(dev))
        .map(|path| dev.state().path = Some(path));
    if changed.is_err() {
        match dev.set_queues(old).and_then(|()| DataPath::start(dev)) {
            Ok(path) => dev.state().path = Some(path),
            Err(_) => give_up(dev),
        }
    }
    changed
}

/// Takes the interface down, because it cannot be made to work: the user may try to bring it up.
fn give_up(dev: &mut Locked<'_, Ravb<'_>>) {
    dev_err!(dev.hw.dev(), "cannot be restarted, taking it down\n");
    dev.close();
}

impl<'bound> netdev::Operations for Ravb<'bound> {
    type State = State<'bound>;
    type TxQueue = TxQueue<'bound>;

    fn open(dev: &mut Locked<'_, Self>) -> Result {
        let hw = dev.device().hw.clone();
        let path = DataPath::start(dev)?;

        match phy::Connection::connect(
            dev,
            hw.dev(),
            hw.wiring.interface,
            hw.variant.phy_restriction,
        ) {
            Ok(phy) => {
                phy.start();
                let state = dev.state();
                state.phy = Some(phy);
                state.path = Some(path);
                Ok(())
            }
            Err(error) => {
                dev_err!(hw.dev(), "no PHY: {:?}\n", error);
                path.stop(dev);
                Err(error)
            }
        }
    }

    fn stop(dev: &mut Locked<'_, Self>) {
        if let Some(path) = dev.state().path.take() {
            path.stop(dev);
        }
        drop(dev.state().phy.take());
        // The next PHY may say something else.
        dev.emac.lock().set_link(None);
    }

    fn start_xmit(
        _dev: &NetDevice<Self>,
        queue: &mut Self::TxQueue,
        txq: TxQueueRef<'_>,
        skb: SkBuff,
    ) -> Xmit {
        queue.transmit(txq, skb)
    }

    fn select_queue(dev: &NetDevice<Self>, skb: &SkBuff) -> u16 {
        // Only the queue for network control has transmit timestamps.
        let queue = if dev.queues() > 1 && skb.wants_hardware_timestamp() {
            QueueId::NetworkControl
        } else {
            QueueId::BestEffort
        };
        queue.index()
    }

    fn features_for(dev: &NetDevice<Self>, skb: &SkBuff, features: Features) -> Features {
        ravb_tx::features_for(dev.hw.variant, skb, features)
    }

    fn set_rx_mode(dev: &mut Locked<'_, Self>) -> Result {
        dev.emac.lock().set_promiscuous(dev.is_promiscuous());
        Ok(())
    }

    fn address_changed(dev: &mut Locked<'_, Self>) {
        let address = dev.address();
        if let Some(path) = &dev.state().path {
            path.regs().set_address(address);
        }
    }

    fn set_features(dev: &mut Locked<'_, Self>, wanted: Features) -> Result {
        // The others are looked at when a frame is received.
        let tx = wanted.contains(Features::TX_CHECKSUM);
        if tx == dev.features().contains(Features::TX_CHECKSUM) {
            return Ok(());
        }
        match &dev.state().path {
            Some(path) => path.regs().set_tx_checksum(tx),
            None => Ok(()),
        }
    }

    fn timed_out(dev: &NetDevice<Self>, queue: u32) {
        if dev.messages.has(Messages::TX_ERR) {
            dev_err!(
                dev.hw.dev(),
                "transmit queue {} is stuck, restarting\n",
                queue
            );
        }
        dev.stats.tx_errors.add(1);
    }

    fn recover(dev: &mut Locked<'_, Self>) {
        let sizes = dev.state().ring_sizes;
        if let Err(error) = replace_rings(dev, sizes) {
            dev_err!(dev.hw.dev(), "not restarted: {:?}\n", error);
        }
    }

    fn stats(dev: &NetDevice<Self>, stats: &mut netdev::Stats) {
        dev.stats().fill(stats);
    }
}

impl LinkHandler for Ravb<'_> {
    fn adjust_link(dev: &NetDevice<Self>, link: Option<Link>) -> bool {
        dev.emac.lock().set_link(link) && dev.messages.has(Messages::LINK)
    }
}

/// The platform driver.
struct RavbDriver;

/// Whether the device tree gives `dev` this property.
fn has_property(dev: &Device<Bound>, name: &CStr) -> bool {
    dev.fwnode().is_some_and(|node| node.property_present(name))
}

/// A device that is bound: everything of it hangs on the network device.
struct BoundDevice<'bound> {
    netdev: &'bound NetDevice<Ravb<'bound>>,
}

impl RavbDriver {
    fn setup<'bound>(
        pdev: &'bound platform::Device<Core<'_>>,
        variant: Option<&'bound Variant>,
    ) -> Result<BoundDevice<'bound>> {
        let pdev: &'bound platform::Device<Bound> = pdev;
        let dev: &'bound Device<Bound> = pdev.as_ref();
        let variant = variant.ok_or(EINVAL)?;

        let reset =
            reset::Control::deasserted(dev).map_err(|e| dev_err_probe!(dev, e, "missing reset"))?;
        let mut irqs = KVec::with_capacity(variant.lines.len(), GFP_KERNEL)?;
        for line in variant.lines {
            let irq = irq::Number::of_device(pdev, line.name)
                .map_err(|e| dev_err_probe!(dev, e, "missing interrupt{}", line.label))?;
            irqs.push(irq, GFP_KERNEL)?;
        }
        // The power domain switches the clocks; here it is only seen that they are there.
        let _ = Clk::get(dev, None).map_err(|e| dev_err_probe!(dev, e, "missing clock"))?;
        if let Some(name) = variant.gptp_clock {
            let _ = Clk::get(dev, Some(name))
                .map_err(|e| dev_err_probe!(dev, e, "missing clock gptp"))?;
        }
        if !has_property(dev, c"power-domains") {
            return Err(dev_err_probe!(dev, EINVAL, "missing power domain"));
        }
        let refclk = OptionalClk::get(dev, Some(c"refclk"))
            .map_err(|e| dev_err_probe!(dev, e, "bad clock refclk"))?;
        let wiring = Self::wiring(dev, variant)?;
        let address = match netdev::address_of_device(dev) {
            Err(error) if error == EPROBE_DEFER => {
                return Err(dev_err_probe!(dev, error, "waiting for the MAC address"));
            }
            result => result.ok(),
        };

        let wakeup = if variant.magic_packets && cfg!(CONFIG_PM_SLEEP) {
            Some(pm::Wakeup::new(dev)?)
        } else {
            None
        };
        let runtime = pm::Runtime::enable(dev, AUTOSUSPEND_DELAY)?;
        let hw = Hw::new(pdev, runtime, refclk, reset, variant, wiring)
            .map_err(|e| dev_err_probe!(dev, e, "missing or bad register window"))?;
        let address = match address {
            Some(address) => Some(address),
            None => Self::boot_address(&hw)?,
        };
        if address.is_none() {
            dev_warn!(dev, "no valid MAC address, using a random one\n");
        }

        phy::register_fixed_link(dev).map_err(|e| dev_err_probe!(dev, e, "bad fixed-link"))?;
        mdio::register(
            dev,
            kernel::module::this_module::<LocalModule>(),
            MdioPins(hw.clone()),
        )
        .map_err(|e| dev_err_probe!(dev, e, "cannot register the MDIO bus"))?;

        let config = netdev::Config {
            queues: variant.queues,
            features: variant.features,
            optional_features: variant.optional_features,
            max_mtu: netdev::mtu_of_frame(variant.max_tx_frame),
            max_segments: ravb_tx::MAX_SEGMENTS,
            address,
            coalesce: variant.coalesce,
            threaded: variant.coalesce && netdev::present_cpus() == 1,
        };
        let ravb = Ravb {
            hw,
            irqs,
            stats: Arc::new(DeviceStats::new(), GFP_KERNEL)?,
            emac: Arc::pin_init(new_spinlock_irq!(Emac::new()), GFP_KERNEL)?,
            wakeup,
            rx_copybreak: Atomic::new(DEFAULT_RX_COPYBREAK),
            messages: Messages::new(Messages::LINK | Messages::TX_ERR),
        };
        let state = State {
            ring_sizes: DEFAULT_RING_SIZES,
            phy: None,
            path: None,
        };
        let netdev = netdev::register(dev, config, ravb, state)
            .map_err(|e| dev_err_probe!(dev, e, "cannot register the network device"))?;

        Ok(BoundDevice { netdev })
    }

    /// Reads how the device is wired.
    fn wiring(dev: &Device<Bound>, variant: &Variant) -> Result<Wiring> {
        let interface = Interface::of_device(dev)
            .map_err(|_| dev_err_probe!(dev, EINVAL, "missing or unknown phy-mode"))?;
        let delay = |name| -> Option<u32> { dev.fwnode()?.property_read::<u32>(name).optional() };
        let link_pin = if has_property(dev, c"renesas,no-ether-link") {
            None
        } else if has_property(dev, c"renesas,ether-link-active-low") {
            Some(LinkPin::ActiveLow)
        } else {
            Some(LinkPin::ActiveHigh)
        };
        Ok(variant.wiring(
            dev,
            interface,
            delay(c"rx-internal-delay-ps"),
            delay(c"tx-internal-delay-ps"),
            link_pin,
        ))
    }

    /// The MAC address that the boot loader left in the registers.
    fn boot_address(hw: &Arc<Hw<'_>>) -> Result<Option<netdev::MacAddress>> {
        let _up = hw.up.lock();
        let regs = Regs::new(hw)?;
        regs.set_mode(Mode::Config)?;
        let address = regs.boot_address();
        regs.set_mode(Mode::Reset)?;
        Ok(netdev::is_valid_address(&address).then_some(address))
    }
}

impl platform::Driver for RavbDriver {
    type IdInfo = Variant;
    type Data<'bound> = BoundDevice<'bound>;
    const OF_ID_TABLE: Option<of::IdTable<Self::IdInfo>> = Some(ravb_hw::TABLE);

    fn probe<'bound>(
        pdev: &'bound platform::Device<Core<'_>>,
        variant: Option<&'bound Self::IdInfo>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        Self::setup(pdev, variant)
    }

    fn unbind<'bound>(_dev: &'bound platform::Device<Core<'_>>, data: Pin<&Self::Data<'bound>>) {
        // While everything is still there; the rest goes with the device core.
        data.netdev.lock().close();
    }
}

/// Stops the device for a suspend or for good. The interface stays up for the user, with its PHY.
fn stop_device(netdev: &mut Locked<'_, Ravb<'_>>) {
    netdev.detach();
    if let Some(path) = netdev.state().path.take() {
        path.stop(netdev);
    }
    if let Some(phy) = &netdev.state().phy {
        phy.stop();
    }
}

/// Stops the device for a suspend and takes its clocks away, unless it is to wake the system.
fn fall_asleep<'bound>(
    dev: &'bound platform::Device<Bound>,
    netdev: &mut Locked<'_, Ravb<'bound>>,
) -> Result {
    if netdev.wakeup.is_some_and(pm::Wakeup::is_enabled) {
        if let Some(mut path) = netdev.state().path.take() {
            netdev.detach();
            let result = path.look_for_magic(netdev);
            netdev.state().path = Some(path);
            return result;
        }
    }
    stop_device(netdev);
    pm::force_suspend(dev.as_ref())?;
    netdev.hw.reset().assert()
}

/// Makes the device work after a suspend, or after an attempt of one.
fn wake_up<'bound>(
    dev: &'bound platform::Device<Bound>,
    netdev: &mut Locked<'_, Ravb<'bound>>,
) -> Result {
    let result = resume(dev, netdev);
    netdev.attach();
    if result.is_err() && netdev.is_running() {
        give_up(netdev);
    }
    result
}

fn resume<'bound>(
    dev: &'bound platform::Device<Bound>,
    netdev: &mut Locked<'_, Ravb<'bound>>,
) -> Result {
    if let Some(path) = netdev.state().path.take() {
        // It looked for magic packets, which RESET mode makes it do anew the next time.
        let result = path.set_wake(netdev, false);
        let state = netdev.state();
        state.path = Some(path);
        let sizes = state.ring_sizes;
        return result.and_then(|()| replace_rings(netdev, sizes));
    }

    netdev.hw.reset().deassert()?;
    pm::force_resume(dev.as_ref())?;
    if netdev.state().phy.is_none() {
        return Ok(());
    }
    let path = DataPath::start(netdev)?;
    let state = netdev.state();
    state.path = Some(path);
    state.phy.as_ref().map_or(Ok(()), phy::Connection::restart)
}

impl SystemOps for RavbDriver {
    const DMA_MASK: DmaMask = DmaMask::new::<32>();

    fn suspend<'bound>(
        dev: &'bound platform::Device<Bound>,
        data: Pin<&Self::Data<'bound>>,
    ) -> Result {
        let mut netdev = data.netdev.lock();
        fall_asleep(dev, &mut netdev).inspect_err(|_| {
            // The system stays awake, and nobody will ask to resume.
            let _ = wake_up(dev, &mut netdev);
        })
    }

    fn resume<'bound>(
        dev: &'bound platform::Device<Bound>,
        data: Pin<&Self::Data<'bound>>,
    ) -> Result {
        wake_up(dev, &mut data.netdev.lock())
    }

    fn shutdown<'bound>(_dev: &'bound platform::Device<Bound>, data: Pin<&Self::Data<'bound>>) {
        stop_device(&mut data.netdev.lock());
    }
}

module_platform_driver! {
    type: RavbDriver,
    name: "ravb_rs",
    authors: ["The ravb_rs authors"],
    description: "Renesas Ethernet AVB and GbEth driver in Rust",
    license: "GPL",
}
