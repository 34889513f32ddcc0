// SPDX-License-Identifier: GPL-2.0
//! The traffic that is measured, and the scripts that make the guest do it.

/// A kind of traffic.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// Name in reports.
    pub(super) name: &'static str,
    /// What it is, for people.
    pub(super) title: &'static str,
    traffic: Traffic,
    /// Numbers of packets; what one costs is the slope.
    counts: &'static [u32],
}

#[derive(Clone, Debug)]
enum Traffic {
    /// Frames of a type that nobody waits for, the shortest way through the stack, or UDP to a
    /// program.
    Receive {
        ethertype: u32,
        size: u32,
        burst: u32,
        /// Nanoseconds from the start of one burst to that of the next.
        gap: u32,
        /// A frame waits until the ring has room.
        hold: bool,
    },
    /// The kernel's packet generator.
    Pktgen { size: u32, burst: u32 },
    /// A file over TCP, by sendfile(); a packet carries 1460 bytes of it.
    Tcp,
}

/// One measurement of a case: `count` packets between the marks `mark` and `mark + 1`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) mark: u32,
    pub(super) count: u32,
}

/// A series of points of which the slope is the cost of a packet.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) points: Vec<Point>,
}

const COUNTS: &[u32] = &[1024, 2048, 4096, 8192];
const FEW: &[u32] = &[256, 512, 1024, 2048];
const BRIEF: &[u32] = &[512, 4096];

/// Nanoseconds by which a perturbed run shifts the traffic: no fraction of anything else.
const PHASE: u32 = 37;

/// Virtual time between the marks of a reception, in seconds.
const WINDOW: &str = "1";

/// Sets up what all cases need, warms caches and pools, and lets the kernel finish what it puts
/// off at boot.
pub(super) const WARM_UP: &str = "modprobe pktgen || fail pktgen
sleep 30
ctl 0x04 60; ctl 0x08 4096; ctl 0x0c 64; ctl 0x10 400000
ctl 0x14 0x88b5; ctl 0x18 1; ctl 0x1c 0; ctl 0x20 1000; sleep 0.2
/lab/flood sink &
";

/// A type of frames that nobody waits for.
const NOBODY: u32 = 0x88b5;
const IPV4: u32 = 0x0800;

/// The cases of a variant.
pub(super) fn of(variant: &str) -> Vec<Case> {
    let receive = |name, title, size, burst, gap, hold, counts| Case {
        name,
        title,
        traffic: Traffic::Receive {
            ethertype: NOBODY,
            size,
            burst,
            gap,
            hold,
        },
        counts,
    };
    let pktgen = |name, title, size, burst| Case {
        name,
        title,
        traffic: Traffic::Pktgen { size, burst },
        counts: COUNTS,
    };
    // Sizes with the FCS, as everyone names them; the model's are without.
    let bursts = |name, title, size, counts| {
        // All that the processor has to do in a burst is done before the next.
        let gap = if size > 1514 { 800_000 } else { 400_000 };
        receive(name, title, size, 64, gap, false, counts)
    };
    let saturated = |name, title, size, counts| receive(name, title, size, 1, 0, true, counts);
    let paced = |name, title, size| receive(name, title, size, 1, 200_000, false, FEW);
    let mut cases = vec![
        bursts("rx_64", "RX 64 B, bursts of 64", 60, COUNTS),
        bursts("rx_512", "RX 512 B, bursts of 64", 508, COUNTS),
        bursts("rx_1518", "RX 1518 B, bursts of 64", 1514, COUNTS),
        saturated("rx_64_saturated", "RX 64 B, saturated", 60, COUNTS),
        saturated("rx_512_saturated", "RX 512 B, saturated", 508, COUNTS),
        saturated("rx_1518_saturated", "RX 1518 B, saturated", 1514, COUNTS),
        paced("rx_paced", "RX 64 B, one at a time", 60),
        paced("rx_512_paced", "RX 512 B, one at a time", 508),
        paced("rx_1518_paced", "RX 1518 B, one at a time", 1514),
        pktgen("tx_64_burst", "TX 64 B, pktgen burst 32", 60, 32),
        pktgen("tx_512_burst", "TX 512 B, pktgen burst 32", 508, 32),
        pktgen("tx_1518_burst", "TX 1518 B, pktgen burst 32", 1514, 32),
        pktgen("tx_64_single", "TX 64 B, pktgen burst 1", 60, 1),
        Case {
            name: "tx_tcp_1514",
            title: "TX 1514 B, TCP sendfile",
            traffic: Traffic::Tcp,
            counts: COUNTS,
        },
        Case {
            name: "rx_udp",
            title: "RX 1518 B, UDP to a socket",
            traffic: Traffic::Receive {
                ethertype: IPV4,
                size: 1514,
                // As many as a socket holds that is not read in between.
                burst: 64,
                gap: 1_600_000,
                hold: false,
            },
            counts: FEW,
        },
    ];
    if variant == "gbeth" {
        // A ring of 1024 descriptors holds any of these bursts.
        cases.extend([
            bursts("rx_8192", "RX 8192 B, bursts of 64", 8188, FEW),
            saturated("rx_8192_saturated", "RX 8192 B, saturated", 8188, FEW),
            paced("rx_8192_paced", "RX 8192 B, one at a time", 8188),
        ]);
    }
    cases
}

impl Case {
    /// The same with few packets.
    pub(super) fn brief(self) -> Case {
        Case {
            counts: BRIEF,
            ..self
        }
    }

    /// The points of one series per phase, 0 first; numbers of marks count up from `mark`.
    pub(super) fn series(&self, phases: u32, mark: &mut u32) -> Vec<Series> {
        let mut point = |count: &u32| {
            *mark += 2;
            Point {
                mark: *mark - 2,
                count: *count,
            }
        };
        let mut series = vec![Series {
            points: self.counts.iter().map(&mut point).collect(),
        }];
        for _ in 1..phases {
            // Two points are a slope.
            series.push(Series {
                points: self.counts.iter().step_by(2).map(&mut point).collect(),
            });
        }
        series
    }

    /// The script of these series.
    pub(super) fn script(&self, series: &[Series]) -> String {
        let mut script = String::new();
        for (phase, series) in series.iter().enumerate() {
            for point in &series.points {
                script.push_str(&self.step(*point, phase as u32 * PHASE));
            }
        }
        script
    }

    fn step(&self, point: Point, phase: u32) -> String {
        let Point { mark, count } = point;
        let end = mark + 1;
        match self.traffic {
            Traffic::Receive {
                ethertype,
                size,
                burst,
                gap,
                hold,
            } => format!(
                "ctl 0x04 {size}; ctl 0x08 {count}; ctl 0x0c {burst}; ctl 0x10 {gap}
                 ctl 0x14 {ethertype}; ctl 0x18 1; ctl 0x1c {}
                 mark {mark}; ctl 0x20 {}; sleep {WINDOW}; mark {end}\n",
                u32::from(hold),
                1_000_000 + phase
            ),
            Traffic::Pktgen { size, burst } => format!(
                "P=/proc/net/pktgen
                 echo rem_device_all > $P/kpktgend_0
                 echo add_device eth0 > $P/kpktgend_0
                 for c in 'count {count}' 'pkt_size {size}' 'burst {burst}' 'delay 0' \
                     'dst 10.0.2.2' 'dst_mac 02:00:5e:00:00:01'; do
                     echo \"$c\" > $P/eth0 || fail pktgen $c
                 done
                 sleep 0.00000{phase:04}
                 mark {mark}; echo start > $P/pgctrl; sleep 0.1; mark {end}\n"
            ),
            // bash makes the connection; the cat of busybox sends a file with sendfile().
            Traffic::Tcp => format!(
                "dd if=/dev/zero of=/tmp/file bs=1460 count={count} 2> /dev/null || fail file
                 sleep 0.00000{phase:04}
                 mark {mark}
                 bash -c 'busybox cat /tmp/file > /dev/tcp/10.0.2.2/5001' || fail tcp
                 sleep {WINDOW}; mark {end}\n"
            ),
        }
    }

    /// By how much the number of packets may exceed `count`, exclusively: a burst of pktgen that
    /// the driver stops in its middle begins anew, a connection has packets without data and some
    /// that are not full.
    pub(super) fn overshoot(&self, count: u32) -> u32 {
        match self.traffic {
            Traffic::Receive { .. } => 1,
            Traffic::Pktgen { burst, .. } => burst,
            Traffic::Tcp => 16 + count / 64,
        }
    }

    /// The queue its packets pass, as the model calls it.
    pub(super) fn queue(&self) -> &'static str {
        match self.traffic {
            Traffic::Receive { .. } => "rx0",
            Traffic::Pktgen { .. } | Traffic::Tcp => "tx0",
        }
    }
}
