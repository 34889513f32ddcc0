// SPDX-License-Identifier: GPL-2.0
//! Frames for tests of receive checksums: what a [`Kind`] of frame looks like, and which kinds a
//! checksum engine can vouch for.
//!
//! Nothing here knows the engine's code or the driver's: the sums are computed from the formats of
//! the headers, so that both can be compared with them.

mod pairwise;

pub use pairwise::pairwise;

/// The network layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
    /// An EtherType for experiments; what follows only looks like a transport header.
    Other,
}

/// The transport layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// UDP with a checksum of 0, which IPv4 allows and IPv6 does not.
    UdpWithoutSum,
    /// ICMP, or ICMPv6.
    Icmp,
    /// The first fragment of a UDP datagram.
    Fragment,
}

/// Tags in front of the network layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tags {
    /// None.
    None,
    /// One of 802.1Q.
    One,
    /// Two of 802.1Q.
    Two,
    /// One of 802.1ad.
    Service,
}

/// What is wrong with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// Nothing.
    None,
    /// The checksum of the transport layer.
    Transport,
    /// The checksum of the IPv4 header.
    Header,
}

impl Network {
    /// All.
    pub const ALL: [Self; 3] = [Self::Ip4, Self::Ip6, Self::Other];
}

impl Transport {
    /// All.
    pub const ALL: [Self; 5] = [
        Self::Tcp,
        Self::Udp,
        Self::UdpWithoutSum,
        Self::Icmp,
        Self::Fragment,
    ];
}

impl Tags {
    /// All.
    pub const ALL: [Self; 4] = [Self::None, Self::One, Self::Two, Self::Service];

    /// The tags' types, with a VLAN each.
    fn types(self) -> &'static [(u16, u16)] {
        match self {
            Self::None => &[],
            Self::One => &[(0x8100, VLAN)],
            Self::Two => &[(0x8100, VLAN), (0x8100, INNER_VLAN)],
            Self::Service => &[(0x88a8, VLAN)],
        }
    }
}

impl Damage {
    /// All.
    pub const ALL: [Self; 3] = [Self::None, Self::Transport, Self::Header];
}

/// The VLAN of the first tag.
pub const VLAN: u16 = 5;
/// The VLAN of the second tag.
pub const INNER_VLAN: u16 = 6;

/// Addresses of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// MAC addresses: destination, source.
    pub mac: [[u8; 6]; 2],
    /// IPv4 addresses: destination, source.
    pub ip4: [[u8; 4]; 2],
    /// IPv6 addresses: destination, source.
    pub ip6: [[u8; 16]; 2],
    /// Ports: destination, source.
    pub port: [u16; 2],
}

impl Addresses {
    /// Addresses that no host uses.
    pub const NOBODY: Self = Self {
        mac: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        ip4: [[192, 0, 2, 1], [192, 0, 2, 2]],
        ip6: [
            [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
        ],
        port: [9, 4660],
    };
}

/// A combination of everything but size and contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// The network layer.
    pub network: Network,
    /// The transport layer.
    pub transport: Transport,
    /// Tags in front of both.
    pub tags: Tags,
    /// What is wrong.
    pub damage: Damage,
    /// The sender padded the frame behind the packet, with bytes that are not zero.
    pub padded: bool,
}

/// How many bytes of padding a padded frame has: an odd number, so that a sum that takes them for
/// data is out of step, too.
const PADDING: usize = 7;

/// EtherType for local experiments.
const EXPERIMENT: u16 = 0x88b5;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
const FRAGMENT6: u8 = 44;

impl Kind {
    /// Every kind.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for network in Network::ALL {
            for transport in Transport::ALL {
                for tags in Tags::ALL {
                    for damage in Damage::ALL {
                        for padded in [false, true] {
                            all.push(Self {
                                network,
                                transport,
                                tags,
                                damage,
                                padded,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    /// The number of the transport protocol.
    fn protocol(&self) -> u8 {
        match (self.transport, self.network) {
            (Transport::Tcp, _) => TCP,
            (Transport::Icmp, Network::Ip6) => ICMP6,
            (Transport::Icmp, _) => ICMP,
            _ => UDP,
        }
    }

    fn network_header_len(&self) -> usize {
        match (self.network, self.transport) {
            (Network::Ip4, _) => 20,
            (Network::Ip6, Transport::Fragment) => 48,
            (Network::Ip6, _) => 40,
            (Network::Other, _) => 0,
        }
    }

    fn transport_header_len(&self) -> usize {
        match self.transport {
            Transport::Tcp => 20,
            _ => 8,
        }
    }

    /// Where the network layer begins.
    fn network_at(&self) -> usize {
        14 + 4 * self.tags.types().len()
    }

    fn padding(&self) -> usize {
        if self.padded {
            PADDING
        } else {
            0
        }
    }

    /// How many bytes of headers there are before the payload.
    pub fn headers_len(&self) -> usize {
        self.network_at() + self.network_header_len() + self.transport_header_len()
    }

    /// The payload of a frame of this kind.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        &frame[self.headers_len()..frame.len() - self.padding()]
    }

    /// The shortest frame of this kind. It has a byte of payload.
    pub fn min_len(&self) -> usize {
        self.headers_len() + 1 + self.padding()
    }

    /// Whether an engine that knows TCP, UDP and ICMP over IPv4 and IPv6, behind at most one tag
    /// of 802.1Q, and leaves the header of IPv4 to others, finds the checksum of the transport
    /// layer right.
    pub fn is_verified(&self) -> bool {
        let known = matches!(
            self.transport,
            Transport::Tcp | Transport::Udp | Transport::Icmp
        );
        known
            && self.network != Network::Other
            && matches!(self.tags, Tags::None | Tags::One)
            && self.damage != Damage::Transport
    }

    /// Whether a host that gets the frame must find its checksum wrong.
    pub fn is_wrong(&self) -> bool {
        match self.transport {
            Transport::Tcp | Transport::Udp | Transport::Icmp => self.damage == Damage::Transport,
            Transport::UdpWithoutSum => self.network == Network::Ip6,
            Transport::Fragment => false,
        }
    }

    /// A frame of this kind, of `len` bytes without its FCS. `seed` makes payloads differ.
    ///
    /// # Panics
    ///
    /// If the headers do not fit: see [`Kind::min_len`].
    pub fn frame(&self, addresses: &Addresses, len: usize, seed: u32) -> Vec<u8> {
        assert!(len >= self.min_len(), "{self:?} of {len} bytes");
        let mut frame = Vec::with_capacity(len);
        frame.extend(addresses.mac.concat());
        for (tag, vlan) in self.tags.types() {
            frame.extend(tag.to_be_bytes());
            frame.extend(vlan.to_be_bytes());
        }
        let ethertype = match self.network {
            Network::Ip4 => 0x0800,
            Network::Ip6 => 0x86dd,
            Network::Other => EXPERIMENT,
        };
        frame.extend(u16::to_be_bytes(ethertype));

        let segment_len = len - self.network_at() - self.network_header_len() - self.padding();
        let segment = self.segment(addresses, segment_len, seed);
        match self.network {
            Network::Ip4 => frame.extend(self.ip4_header(addresses, segment_len, seed)),
            Network::Ip6 => frame.extend(self.ip6_header(addresses, segment_len, seed)),
            Network::Other => {}
        }
        frame.extend(segment);
        frame.resize(len, 0xa5);
        frame
    }

    fn ip4_header(&self, addresses: &Addresses, segment_len: usize, seed: u32) -> Vec<u8> {
        let mut header = vec![0x45, 0];
        header.extend(((20 + segment_len) as u16).to_be_bytes());
        // A fragment needs an identification of its own.
        header.extend((seed as u16).to_be_bytes());
        let more_fragments = self.transport == Transport::Fragment;
        header.extend([if more_fragments { 0x20 } else { 0 }, 0]);
        header.extend([64, self.protocol(), 0, 0]);
        let [to, from] = addresses.ip4;
        header.extend([from, to].concat());
        let sum = !sum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        if self.damage == Damage::Header {
            header[11] ^= 0x40;
        }
        header
    }

    fn ip6_header(&self, addresses: &Addresses, segment_len: usize, seed: u32) -> Vec<u8> {
        let extension = self.network_header_len() - 40;
        let mut header = vec![0x60, 0, 0, 0];
        header.extend(((extension + segment_len) as u16).to_be_bytes());
        let next = match self.transport {
            Transport::Fragment => FRAGMENT6,
            _ => self.protocol(),
        };
        header.extend([next, 64]);
        let [to, from] = addresses.ip6;
        header.extend([from, to].concat());
        if self.transport == Transport::Fragment {
            header.extend([self.protocol(), 0, 0, 1]);
            header.extend(seed.to_be_bytes());
        }
        header
    }

    /// The transport header and the payload, with its checksum as it is to be.
    fn segment(&self, addresses: &Addresses, len: usize, seed: u32) -> Vec<u8> {
        let [to, from] = addresses.port.map(u16::to_be_bytes);
        let ports = [from, to].concat();
        let (mut segment, field) = match self.transport {
            Transport::Tcp => {
                let mut header = ports;
                header.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
                (header, 16)
            }
            Transport::Icmp => {
                // Replies that nobody waits for, so that nobody answers.
                let kind = if self.network == Network::Ip6 { 129 } else { 0 };
                (vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1], 2)
            }
            _ => {
                let mut header = ports;
                header.extend((len as u16).to_be_bytes());
                header.extend([0, 0]);
                (header, 6)
            }
        };
        let mut state = seed | 0x100;
        while segment.len() < len {
            // A linear congruential generator: no two windows of a frame look alike.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            segment.push((state >> 24) as u8);
        }

        let mut sum = !sum(&[self.pseudo_header(addresses, len), segment.clone()].concat());
        if self.transport == Transport::UdpWithoutSum {
            // A sum that happens to be 0 would make it a datagram with a sum.
            segment[len - 1] ^= u8::from(sum == 0);
        } else {
            if sum == 0 && self.protocol() == UDP {
                sum = 0xffff;
            }
            segment[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        }
        if self.damage == Damage::Transport {
            // In the payload, which every kind has.
            segment[len - 1] ^= 0x10;
        }
        segment
    }

    fn pseudo_header(&self, addresses: &Addresses, segment_len: usize) -> Vec<u8> {
        let [to, from] = addresses.ip4;
        let mut header = match self.network {
            Network::Ip6 => addresses.ip6.concat(),
            // ICMP over IPv4 has none.
            _ if self.transport == Transport::Icmp => return Vec::new(),
            _ => [from, to].concat(),
        };
        header.extend([0, self.protocol()]);
        header.extend((segment_len as u16).to_be_bytes());
        header
    }
}

/// The one's complement sum of big-endian words; an odd last byte is padded with 0.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u64 = bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// CRC-32 as zlib and Ethernet have it.
pub fn crc32(bytes: &[u8]) -> u32 {
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    });
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_from_the_wire() {
        // A UDP datagram worked out on paper.
        let kind = Kind {
            network: Network::Ip4,
            transport: Transport::Udp,
            tags: Tags::One,
            damage: Damage::None,
            padded: false,
        };
        let frame = kind.frame(&Addresses::NOBODY, 60, 1);
        assert_eq!(frame.len(), 60);
        assert_eq!(frame[12..18], [0x81, 0, 0, 5, 8, 0]);
        assert_eq!(sum(&frame[18..38]), 0xffff);
        assert_eq!(frame[38..44], [0x12, 0x34, 0, 9, 0, 22]);
        let pseudo = [&frame[30..38], &[0, 17, 0, 22], &frame[38..]].concat();
        assert_eq!(sum(&pseudo), 0xffff);
    }

    #[test]
    fn every_kind_has_the_length_that_is_asked_for() {
        assert_eq!(Kind::all().len(), 3 * 5 * 4 * 3 * 2);
        for kind in Kind::all() {
            for len in [kind.min_len(), 200, 1515, 8000] {
                assert_eq!(kind.frame(&Addresses::NOBODY, len, 7).len(), len);
            }
        }
    }

    #[test]
    fn damage_is_where_it_is_said_to_be() {
        for kind in Kind::all() {
            let frame = kind.frame(&Addresses::NOBODY, 300, 3);
            let intact = Kind {
                damage: Damage::None,
                ..kind
            };
            let intact = intact.frame(&Addresses::NOBODY, 300, 3);
            let changed: Vec<usize> = (0..300).filter(|&at| frame[at] != intact[at]).collect();
            let expected = match (kind.damage, kind.network) {
                (Damage::None, _) | (Damage::Header, Network::Ip6 | Network::Other) => vec![],
                (Damage::Header, Network::Ip4) => vec![kind.network_at() + 11],
                (Damage::Transport, _) => vec![299 - kind.padding()],
            };
            assert_eq!(changed, expected, "{kind:?}");
        }
    }

    #[test]
    fn crc_of_the_check_string() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
