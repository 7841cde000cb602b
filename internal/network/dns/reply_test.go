package dns

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	wire "github.com/miekg/dns"

	"github.com/millrace/millrace/internal/randomly"
)

// libraryRecord returns a record as the library has it.
func libraryRecord(t testing.TB, r record, ttl uint32) wire.RR {
	content := map[uint16]string{
		wire.TypeA: r.address.String(), wire.TypeAAAA: r.address.String(), wire.TypeTXT: `"` + r.target + `"`, wire.TypeSRV: fmt.Sprintf("0 100 %d %s", r.port, r.target),
		wire.TypeSOA: fmt.Sprintf("%s hostmaster.%s 1 7200 1800 86400 %d", r.target, r.owner, ttl),
	}[r.kind]
	if content == "" {
		content = r.target
	}
	return libraryText(t, fmt.Sprintf("%s %d IN %s %s", r.owner, ttl, wire.TypeToString[r.kind], content))
}

func libraryText(t testing.TB, text string) wire.RR {
	t.Helper()
	rr, err := wire.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

// randomRecords returns records of all types, whose names often end like each other.
func randomRecords(random *rand.Rand, n int) []record {
	ends := []string{"cluster.local.", "svc.cluster.local.", "web.default.svc.cluster.local.", "example.com.", "local."}
	name := func() string {
		return strings.Repeat(fmt.Sprintf("n%d.", random.IntN(5)), random.IntN(4)) + ends[random.IntN(len(ends))]
	}
	kinds := []uint16{wire.TypeA, wire.TypeAAAA, wire.TypeCNAME, wire.TypeNS, wire.TypePTR, wire.TypeSRV, wire.TypeSOA, wire.TypeTXT}
	var all []record
	for range n {
		r := record{owner: name(), kind: kinds[random.IntN(len(kinds))], target: name(), port: uint16(random.IntN(1 << 16))}
		switch r.kind {
		case wire.TypeA:
			r.address = netip.AddrFrom4([4]byte{10, 0, byte(random.IntN(256)), 1})
		case wire.TypeAAAA:
			r.address = netip.MustParseAddr(fmt.Sprintf("fd00::%x", 1+random.IntN(1000)))
		}
		all = append(all, r)
	}
	return all
}

// The library reads what was written, and would not write less.
func TestRepliesAreWhatTheLibraryReads(t *testing.T) {
	random := rand.New(rand.NewPCG(randomly.Seed(t), 1))
	r := reply{ttl: 5}
	for range 500 {
		request := new(wire.Msg).SetQuestion("web.default.svc.cluster.local.", wire.TypeANY)
		packed, err := request.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var q query
		q.parse(packed)
		want := new(wire.Msg).SetReply(request)
		want.RecursionAvailable, want.Authoritative, want.Compress = true, true, true
		r.begin(&q, wire.MaxMsgSize)
		mailboxes := 0 // whose first label is written each time: a reply has at most one SOA
		for section, list := range []*[]wire.RR{&want.Answer, &want.Ns, &want.Extra} {
			for _, rec := range randomRecords(random, random.IntN(5)) {
				r.add(section, rec)
				*list = append(*list, libraryRecord(t, rec, r.ttl))
				if rec.kind == wire.TypeSOA {
					mailboxes += len("hostmaster.")
				}
			}
		}
		written := r.end(&q, wire.RcodeSuccess, true)
		got := new(wire.Msg)
		if err := got.Unpack(written); err != nil {
			t.Fatal(err)
		}
		got.Compress = true
		theirs, err := want.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() || len(written) > len(theirs)+mailboxes {
			t.Fatalf("%d bytes were written, by the library %d. Read:\n%v\nwant:\n%v", len(written), len(theirs), got, want)
		}
	}
}

func FuzzRequests(f *testing.F) {
	for _, m := range []*wire.Msg{
		new(wire.Msg).SetQuestion("web.default.svc.cluster.local.", wire.TypeA),
		new(wire.Msg).SetQuestion(`a\.b\\c.example.`, wire.TypeAAAA),
		new(wire.Msg).SetQuestion(".", wire.TypeNS).SetEdns0(4096, true),
		new(wire.Msg).SetUpdate("cluster.local."),
		new(wire.Msg),
	} {
		packed, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
		f.Add(binary.BigEndian.AppendUint16(packed, pointer|headerLength))
	}
	var r reply
	var q query
	f.Fuzz(func(t *testing.T, packed []byte) {
		ok := q.parse(packed)
		m := new(wire.Msg)
		err := m.Unpack(packed)
		if !ok {
			return
		}
		reply := new(wire.Msg)
		r.begin(&q, plainSize)
		if err := reply.Unpack(r.end(&q, wire.RcodeRefused, false)); err != nil {
			t.Fatalf("the reply to %x is malformed: %v", packed, err)
		}
		if err != nil || len(m.Question) != 1 {
			return
		}
		first := m.Question[0]
		if q.kind != first.Qtype || q.class != first.Qclass || reply.Question[0] != first || reply.Id != m.Id {
			t.Errorf("%v was read as %+v, and the reply is %v", m, q, reply)
		}
	})
}
