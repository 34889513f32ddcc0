// SPDX-License-Identifier: GPL-2.0
//! Everything that can be set or read by name: the only way in and out besides the bus.
//!
//! [`TABLE`] is the one place that knows a property's name, what it means, and how it is set and
//! read. QEMU's `-device`, `qom-set` and `qom-get`, and the tests all come through here. Values
//! are text: numbers (decimal or 0x…), `on`/`off`, one of several words, or JSON.

use serde_json::json;

use crate::counters::Counters;
use crate::emac::LinkPin;
use crate::host::Host;
use crate::model::Model;
use crate::phy::{Mdio, Partner, Phy, PhyConfig};
use crate::regs::reg;
use crate::variant::{ClockOff, VARIANTS};

type Set = fn(&mut Model, &mut dyn Host, &str) -> Result<(), String>;

/// One property.
pub struct Property {
    /// Name as used on QEMU's command line.
    pub name: &'static str,
    /// One sentence for the user.
    pub description: &'static str,
    /// May be set while the machine runs, not only before.
    pub at_runtime: bool,
    get: fn(&Model) -> String,
    set: Option<Set>,
}

impl Property {
    /// False for a result that can only be read.
    pub fn settable(&self) -> bool {
        self.set.is_some()
    }
}

impl std::fmt::Debug for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Property")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Parses a decimal or 0x… number.
pub(crate) fn parse_number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text:?}: not a number"))
}

fn parse_u32(text: &str) -> Result<u32, String> {
    u32::try_from(parse_number(text)?).map_err(|_| format!("{text}: more than 32 bits"))
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(format!("{text:?}: neither on nor off")),
    }
}

fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn parse_choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        format!("{text:?}: not one of {}", words.join(", "))
    })
}

fn choice<T: PartialEq>(value: T, choices: &[(&str, T)]) -> String {
    let found = choices.iter().find(|(_, other)| *other == value);
    found.map_or_else(String::new, |(word, _)| (*word).to_owned())
}

const CLOCK_OFF: &[(&str, Option<ClockOff>)] = &[
    ("variant", None),
    ("reset", Some(ClockOff::Reset)),
    ("standby", Some(ClockOff::Standby)),
    ("keep", Some(ClockOff::Keep)),
];
const LINK_PIN: &[(&str, LinkPin)] = &[
    ("follow", LinkPin::Follow),
    ("high", LinkPin::High),
    ("low", LinkPin::Low),
];
const CLK_OFF: &[(&str, bool)] = &[("zero", false), ("abort", true)];
const SPEEDS: &[(&str, (u32, bool))] = &[
    ("10-half", (10, false)),
    ("10-full", (10, true)),
    ("100-half", (100, false)),
    ("100-full", (100, true)),
    ("1000-half", (1000, false)),
    ("1000-full", (1000, true)),
];

/// Changes how the PHY is strapped, which powers it on anew.
fn restrap(model: &mut Model, change: impl FnOnce(&mut PhyConfig)) {
    let mut config = *model.mdio.phy().config();
    change(&mut config);
    model.mdio = Mdio::new(Phy::new(config));
}

fn set_partner(model: &mut Model, h: &mut dyn Host, change: impl FnOnce(&mut Partner)) {
    let mut partner = model.mdio.phy().config().partner;
    change(&mut partner);
    model.mdio.phy_mut().set_partner(h.now(), partner);
    model.settle(h);
}

/// A boolean field.
macro_rules! flag {
    ($name:literal, $runtime:literal, $group:ident . $field:ident, $doc:literal) => {
        Property {
            name: $name,
            description: $doc,
            at_runtime: $runtime,
            get: |m| switch(m.$group.$field),
            set: Some(|m, h, text| {
                m.$group.$field = parse_switch(text)?;
                m.settle(h);
                Ok(())
            }),
        }
    };
}

/// A numeric field.
macro_rules! number {
    ($name:literal, $runtime:literal, $group:ident . $field:ident, $parse:ident, $doc:literal) => {
        Property {
            name: $name,
            description: $doc,
            at_runtime: $runtime,
            get: |m| m.$group.$field.to_string(),
            set: Some(|m, h, text| {
                m.$group.$field = $parse(text)?;
                m.settle(h);
                Ok(())
            }),
        }
    };
}

/// A result.
macro_rules! result {
    ($name:literal, $doc:literal, $get:expr) => {
        Property {
            name: $name,
            description: $doc,
            at_runtime: true,
            get: $get,
            set: None,
        }
    };
}

/// Something that happens when the property is set.
macro_rules! action {
    ($name:literal, $doc:literal, $set:expr) => {
        Property {
            name: $name,
            description: $doc,
            at_runtime: true,
            get: |_| String::new(),
            set: Some($set),
        }
    };
}

/// Every property.
#[rustfmt::skip]
pub static TABLE: &[Property] = &[
    Property {
        name: "variant", at_runtime: false,
        description: "Member of the family: gbeth, gen2, gen3, gen4 or rzv2m",
        get: |m| m.variant.name.to_owned(),
        set: Some(|m, _, text| {
            let found = VARIANTS.iter().find(|variant| variant.name == text);
            m.set_variant(found.ok_or_else(|| format!("{text:?}: no such variant"))?);
            Ok(())
        }),
    },
    // Clock, reset, address.
    Property {
        name: "clk-off", description: "Register access with the clock off: zero or abort (A)",
        at_runtime: true,
        get: |m| choice(m.settings.clk_off_abort, CLK_OFF),
        set: Some(|m, _, text| {
            m.settings.clk_off_abort = parse_choice(text, CLK_OFF)?;
            Ok(())
        }),
    },
    Property {
        name: "clk-off-state",
        description: "State when the clock stops: variant, reset, standby or keep (K-ml)",
        at_runtime: true,
        get: |m| choice(m.settings.clock_off, CLOCK_OFF),
        set: Some(|m, _, text| {
            m.settings.clock_off = parse_choice(text, CLOCK_OFF)?;
            Ok(())
        }),
    },
    Property {
        name: "boot-mac", description: "Address a boot loader left in MAHR and MALR",
        at_runtime: false,
        get: |m| m.settings.boot_mac.map(|byte| format!("{byte:02x}")).join(":"),
        set: Some(|m, _, text| {
            let address = crate::inject::parse_hex(text)?;
            m.settings.boot_mac = address.try_into().map_err(|_| "not an address".to_owned())?;
            Ok(())
        }),
    },
    flag!("mac-survives-reset", true, settings.mac_survives_reset,
          "MAHR and MALR keep their value through RESET mode and the reset line (A)"),
    // Transmission.
    Property {
        name: "tx-limit", description: "Longest frame the transmitter takes, without FCS (K-ml)",
        at_runtime: true,
        get: |m| m.settings.tx_limit.unwrap_or(m.variant.tx_limit).to_string(),
        set: Some(|m, _, text| {
            m.settings.tx_limit = Some(parse_u32(text)?);
            Ok(())
        }),
    },
    number!("tx-fetch-ns", true, settings.tx_fetch_ns, parse_number,
            "Time from a doorbell to the first descriptor fetch (A)"),
    flag!("tx-unaligned-works", true, settings.tx_unaligned_works,
          "Unaligned TX buffers are logged but sent, instead of stopping the queue (A)"),
    flag!("qef-doorbell-restarts", true, settings.qef_doorbell_restarts,
          "A doorbell restarts a queue that an error has stopped (A)"),
    // Reception.
    number!("rx-fifo", true, settings.rx_fifo, parse_u32, "Size of the receive FIFO in bytes (A)"),
    number!("wire-backlog", true, settings.wire_backlog, parse_u32,
            "Bytes the link partner queues for the wire before it drops"),
    flag!("rx-fend-total", true, settings.rx_fend_total,
          "The last part of a frame carries the total length (K-qnx) instead of its own (K-ml)"),
    flag!("rx-status-in-all-parts", true, settings.rx_status_in_all_parts,
          "Every part of a frame carries MSC, TR and EI, not only the last (A)"),
    flag!("rx-ring-end-open", true, settings.rx_ring_end_open,
          "A frame the ring cannot hold ends without FEND, instead of with FEND and EI (A)"),
    flag!("deliver-errors", true, settings.deliver_errors,
          "Error frames reach memory although RCR.EFFS is 0 or does not exist (A)"),
    flag!("toe-trailer-always", true, settings.toe_trailer_always,
          "Received frames carry the checksum trailer even if CSR2 is 0 (A)"),
    flag!("toe-tx-every-frame", true, settings.toe_tx_every_frame,
          "The engine sums up every frame it knows (K-ml), instead of those that have the sum of \
           the pseudo header in their checksum field (A)"),
    flag!("toe-blocks-config", true, settings.toe_blocks_config,
          "OPERATION is left only while CSR0.TPE and CSR0.RPE are set (K-ml)"),
    flag!("control-frames-ptp-only", true, settings.control_frames_ptp_only,
          "Network control frames are PTP only, not MRP (A)"),
    // gPTP.
    Property {
        name: "gptp-clock", description: "Rate of the clock of the gPTP timer in Hz",
        at_runtime: false,
        get: |m| m.gptp_clock().to_string(),
        set: Some(|m, _, text| {
            m.settings.gptp_clock = Some(parse_number(text)?);
            Ok(())
        }),
    },
    number!("timestamp-fifo", true, settings.timestamp_fifo, parse_u32,
            "Entries of the transmit timestamp FIFO (A)"),
    flag!("timestamp-fifo-keeps-new", true, settings.timestamp_fifo_keeps_new,
          "A full timestamp FIFO loses its oldest entry instead of the new one (A)"),
    Property {
        name: "gccr-stuck", description: "Requests in GCCR are never performed",
        at_runtime: true,
        get: |m| switch(m.faults.gccr_stuck),
        set: Some(|m, h, text| {
            m.faults.gccr_stuck = parse_switch(text)?;
            m.perform_gccr(h.now());
            m.settle(h);
            Ok(())
        }),
    },
    number!("tx-drop-timestamp", true, faults.drop_timestamp_every, parse_u32,
            "One transmit timestamp in so many is lost; 0 for none"),
    number!("tx-timestamp-ns", true, faults.tx_timestamp_ns, parse_number,
            "Time from the end of a sent frame to its timestamp"),
    action!("external-event", "Any value: an edge on the gPTP capture pin", |m, h, _| {
        m.external_event(h);
        Ok(())
    }),
    // PHY and link.
    Property {
        name: "phy-present", description: "There is a PHY on the management bus",
        at_runtime: false,
        get: |m| switch(m.mdio.phy().config().present),
        set: Some(|m, _, text| {
            let present = parse_switch(text)?;
            restrap(m, |phy| phy.present = present);
            Ok(())
        }),
    },
    Property {
        name: "phy-address", description: "Address of the PHY, 0 to 31", at_runtime: false,
        get: |m| m.mdio.phy().config().address.to_string(),
        set: Some(|m, _, text| {
            let address = parse_number(text)?;
            if address > 31 {
                return Err(format!("{address}: more than 31"));
            }
            restrap(m, |phy| phy.address = address as u8);
            Ok(())
        }),
    },
    Property {
        name: "phy-id", description: "Registers 2 and 3 of the PHY", at_runtime: false,
        get: |m| format!("{:#010x}", m.mdio.phy().config().id),
        set: Some(|m, _, text| {
            let id = parse_u32(text)?;
            restrap(m, |phy| phy.id = id);
            Ok(())
        }),
    },
    Property {
        name: "phy-autoneg-ns", description: "Time to bring a link up", at_runtime: false,
        get: |m| m.mdio.phy().config().autoneg_ns.to_string(),
        set: Some(|m, _, text| {
            let time = parse_number(text)?;
            restrap(m, |phy| phy.autoneg_ns = time);
            Ok(())
        }),
    },
    Property {
        name: "cable", description: "The cable is plugged in", at_runtime: true,
        get: |m| switch(m.mdio.phy().config().cable),
        set: Some(|m, h, text| {
            let now = h.now();
            m.mdio.phy_mut().set_cable(now, parse_switch(text)?);
            m.settle(h);
            Ok(())
        }),
    },
    Property {
        name: "partner", at_runtime: true,
        description: "Best mode of the link partner: 10-, 100- or 1000-, half or full",
        get: |m| {
            let partner = m.mdio.phy().config().partner;
            choice((partner.mbps, partner.full_duplex), SPEEDS)
        },
        set: Some(|m, h, text| {
            let (mbps, full_duplex) = parse_choice(text, SPEEDS)?;
            set_partner(m, h, |partner| {
                partner.mbps = mbps;
                partner.full_duplex = full_duplex;
            });
            Ok(())
        }),
    },
    Property {
        name: "partner-autoneg", at_runtime: true,
        description: "The link partner negotiates; off: it is forced to its mode",
        get: |m| switch(m.mdio.phy().config().partner.autoneg),
        set: Some(|m, h, text| {
            let on = parse_switch(text)?;
            set_partner(m, h, |partner| partner.autoneg = on);
            Ok(())
        }),
    },
    Property {
        name: "partner-pause", at_runtime: true,
        description: "The link partner offers symmetric and asymmetric pause",
        get: |m| switch(m.mdio.phy().config().partner.pause),
        set: Some(|m, h, text| {
            let on = parse_switch(text)?;
            set_partner(m, h, |partner| {
                partner.pause = on;
                partner.asym_pause = on;
            });
            Ok(())
        }),
    },
    // Faults.
    Property {
        name: "link-pin", description: "AVB_LINK pin: follow (the PHY's link), high or low",
        at_runtime: true,
        get: |m| choice(m.faults.link_pin, LINK_PIN),
        set: Some(|m, h, text| {
            m.faults.link_pin = parse_choice(text, LINK_PIN)?;
            m.settle(h);
            Ok(())
        }),
    },
    number!("mode-change-delay", true, faults.mode_change_delay, parse_u32,
            "Reads of CSR before a mode change takes effect"),
    flag!("tx-hold", true, faults.tx_hold, "The frame on the wire never ends"),
    flag!("rx-hold", true, faults.rx_hold, "Nothing leaves the receive FIFO"),
    flag!("toe-stuck", true, faults.toe_stuck, "CSR0.TPE and CSR0.RPE never read 0"),
    flag!("spurious-irq", true, faults.spurious_irq,
          "The first interrupt line is high without a status bit, even with the clock off"),
    flag!("tx-at-once", true, faults.tx_at_once,
          "A doorbell returns after the frames have been sent, as if fetch and wire took no time"),
    number!("tx-completion-ns", true, faults.tx_completion_ns, parse_number,
            "Time from the end of a sent frame to its first write-back"),
    number!("tx-part-ns", true, faults.tx_part_ns, parse_number,
            "Time between the write-backs of the parts of one frame"),
    number!("rx-part-ns", true, faults.rx_part_ns, parse_number,
            "Time between the parts of one received frame"),
    number!("collide-every", true, faults.collide_every, parse_u32,
            "In half duplex one frame in so many collides once; 0 for none"),
    Property {
        name: "hostile", at_runtime: true,
        description: "Seed of what a lying device does; 0: honest, which ends all faults, too",
        get: |m| m.hostile.seed.to_string(),
        set: Some(|m, h, text| {
            let seed = parse_number(text)?;
            m.set_hostile(h, seed);
            Ok(())
        }),
    },
    number!("hostile-gap-ns", true, hostile.gap_ns, parse_number,
            "Time between two acts of a lying device, on the average"),
    number!("hostile-acts", true, hostile.acts, parse_u32,
            "What it does, a sum of: 1 receive descriptors, 2 transmit descriptors, 4 status, \
             8 registers, 16 delays"),
    result!("hostile-events", "Number of descriptors it has written to",
            |m| m.hostile.events.to_string()),
    action!("inject", "JSON: frames to be received; see the documentation of the module inject",
            |m, h, text| m.inject(h, text)),
    action!("emac-status", "Number: bits of ECSR that come up, as by an event of the MAC",
            |m, h, text| {
                let bits = parse_u32(text)?;
                m.regs.raise(reg::ECSR, bits);
                m.settle(h);
                Ok(())
            }),
    action!("emac-events", "JSON: events to add to E-MAC counters, such as {\"TROCR\": 3}",
            |m, _, text| m.add_emac_events(text)),
    // Observation.
    flag!("watch", true, settings.watch,
          "Watch what CPUs do with the descriptors; takes effect on entering OPERATION"),
    flag!("check-tx-buffers", true, settings.check_tx_buffers,
          "Look at the data of a sent frame again when its descriptors are given back"),
    flag!("eager-fetch", true, settings.eager_fetch,
          "The engine looks at the descriptors after each watched store"),
    flag!("control", false, settings.control,
          "The guest finds a control page at 0x0b000000; see the module control"),
    number!("wire-mbps", true, settings.wire_mbps, parse_u32,
            "Rate at which frames pass the wire, whatever the link says; 0: as it says"),
    flag!("trace", true, settings.trace, "Log every register access"),
    Property {
        name: "record", at_runtime: true,
        description: "Keep a record of register accesses; switching it on starts a new one",
        get: |m| switch(m.record.on),
        set: Some(|m, _, text| {
            m.record.switch(parse_switch(text)?);
            Ok(())
        }),
    },
    result!("accesses", "JSON: the record, without accesses to the pins of the management bus",
            |m| m.record.json().to_string()),
    result!("violations", "JSON: broken rules and how often",
            |m| m.rules.counts_json().to_string()),
    result!("violation-log", "JSON: lines logged for broken rules",
            |m| m.rules.log_json().to_string()),
    result!("counters", "JSON: what the driver has cost since the start or counters-reset",
            |m| m.counters.json(&m.regs).to_string()),
    action!("counters-reset", "Any value: counters start again", |m, _, _| {
        m.counters = Counters::new(m.variant.irqs + 1);
        Ok(())
    }),
    action!("violations-reset", "Any value: forget the broken rules", |m, _, _| {
        m.rules.clear();
        Ok(())
    }),
    Property {
        name: "registers", at_runtime: true,
        description: "JSON: every register by name, as stored, which reading may not show; those \
                      that are set change, as they would by themselves and not by an access",
        get: |m| m.regs.json().to_string(),
        set: Some(|m, h, text| {
            m.regs.set_json(text)?;
            m.settle(h);
            Ok(())
        }),
    },
    action!("walk", "Name of a queue: look along its ring, for the property ring", |m, h, text| {
        let queue = crate::counters::queue_index(text);
        m.walk_ring(h, queue.ok_or_else(|| format!("{text:?}: no such queue"))?)
    }),
    result!("ring", "JSON: type, size and pointer of each descriptor that the last walk saw", |m| {
        let list: Vec<_> = m.watch.walked.iter()
            .map(|d| json!([format!("{:?}", d.kind()), d.size(), d.pointer()]))
            .collect();
        json!(list).to_string()
    }),
    result!("state", "JSON: mode, clock, idle time before it stopped, reset, link, queues", |m| {
        let queues: Vec<_> = m.queues().map(|queue| json!({
            "queue": crate::counters::queue_name(queue),
            "descriptor": m.dmac.current_descriptor(queue),
        })).collect();
        json!({
            "mode": format!("{:?}", m.modes.current).to_lowercase(),
            "clock": m.modes.clock,
            "idle_ns": m.modes.idle,
            "reset": m.modes.in_reset,
            "frozen": m.dmac.frozen,
            "link": m.mdio.phy().link().map(|l| json!({"mbps": l.mbps, "full": l.full_duplex})),
            "usable_link": m.usable_link().is_some(),
            "queues": queues,
        }).to_string()
    }),
];

fn find(name: &str) -> Option<&'static Property> {
    TABLE.iter().find(|property| property.name == name)
}

impl Model {
    /// Sets a property. The error is a message for the user.
    pub fn set(&mut self, h: &mut dyn Host, name: &str, value: &str) -> Result<(), String> {
        let property = find(name).ok_or_else(|| format!("no property {name:?}"))?;
        let set = property
            .set
            .ok_or_else(|| format!("property {name:?} is read-only"))?;
        set(self, h, value).map_err(|error| format!("{name}: {error}"))
    }

    /// Value of a property, `None` if there is none of this name. Actions read as empty text.
    pub fn get(&self, name: &str) -> Option<String> {
        find(name).map(|property| (property.get)(self))
    }
}
