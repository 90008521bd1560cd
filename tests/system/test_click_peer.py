"""Random configurations of single classes, by Click itself and by `ashlar click`.

Shows: what leaves by each port with its time and annotations, what handlers answer, and whether a configuration is taken
are the same. `CLICK_BIN` names Click's user-level program; without it all classes are skipped. `CLICK_CASES` is the number
of cases of a class, `CLICK_SEED` their seed. Classes that are not in AGREE still differ: `click_peer.py` tells where.
"""

import os

import click_peer
import pytest
from topology import ASHLAR

pytestmark = pytest.mark.ashlar

CLICK = os.environ.get("CLICK_BIN", "")
CASES = int(os.environ.get("CLICK_CASES", "20"))
SEED = int(os.environ.get("CLICK_SEED", "1"))

AGREE = """
AddressInfo AdjustTimestamp AggregateFirst AggregateIPAddrPair AggregateLast AggregateLength AggregatePaint
Align AverageCounter BandwidthMeter BandwidthRatedSplitter BandwidthRatedUnqueue Burster CheckICMPHeader
CheckIPHeader CheckLength CheckPaint CheckTCPHeader CheckUDPHeader Classifier DRRSched DecIP6HLIM DecIPTTL
DelayShaper DelayUnqueue DirectIPLookup Discard DropBroadcasts EnsureEther EtherEncap EtherMirror EtherRewrite
FixIPSrc FrontDropQueue FullNoteQueue GetEtherAddress GetIP6Address GetIPAddress Hub ICMPIPEncap ICMPPingEncap
ICMPPingRewriter IP6Fragmenter IPMirror IPReassembler IPRewriterPatterns Idle LinearIPLookup LinkUnqueue
MSQueue MarkIP6Header MarkIPCE MarkIPHeader MarkMACHeader MixedQueue NotifierQueue Null Pad Paint PaintSwitch
PaintTee PortInfo Print PrioSched PullNull PullSwitch PushNull Queue QuickNoteQueue RangeIPLookup
RatedSplitter Resize RoundRobinSched RoundRobinSwitch SetEtherAddress SetIP6Address SetIPAddress SetIPChecksum
SetIPDSCP SetIPECN SetTimestampDelta SimplePrioSched SimpleQueue StaticIPLookup StaticPullSwitch
StaticThreadSched StoreEtherAddress StrideSched Strip StripIPHeader StripToNetworkHeader Switch Tee
ThreadSafeQueue TimeRange TimedSource TimestampAccum Truncate Unqueue Unstrip UnstripIPHeader
""".split()


@pytest.mark.skipif(not CLICK, reason="CLICK_BIN names no program of Click's")
@pytest.mark.parametrize("name", AGREE)
def test_a_class_does_as_in_click(name, tmp_path):
    peers = click_peer.Peers(CLICK, ASHLAR, str(tmp_path))
    difference, counts = click_peer.compare(peers, name, SEED, CASES)
    assert difference is None, f"{difference}\n{dict(counts)}"
    assert counts["taken"] > 0, dict(counts)


def test_every_class_that_agrees_is_described():
    assert set(AGREE) <= set(click_peer.SPECS)
