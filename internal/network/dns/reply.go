package dns

import (
	"encoding/binary"
	"net/netip"
	"strings"

	wire "github.com/miekg/dns"
)

// record is a record of the zone. All have the zone's TTL.
type record struct {
	owner   string
	kind    uint16
	address netip.Addr // of A and AAAA
	target  string     // of CNAME, NS, PTR, SRV and SOA the name, of TXT the text
	port    uint16     // of SRV
}

// The sections of a reply behind the question, as indexes of its counts.
const (
	answerSection = iota
	authoritySection
	additionalSection
)

// reply writes replies about the cluster, one after the other into the same memory: at 20,000 questions a second,
// garbage would be most of the process's memory. Names are compressed. Records that do not fit into the limit are left
// out, and the reply is marked as truncated.
type reply struct {
	bytes     []byte
	limit     int
	ttl       uint32
	names     []writtenName
	counts    [3]uint16
	truncated bool
	failed    bool // a name cannot be written
}

// writtenName is a name in the message. Its first length bytes are at an offset, and a pointer replaces the others. A
// label's length precedes it, as the dot of the label before precedes it in the text: so a suffix has the same place in
// both.
type writtenName struct {
	text       string
	at, length int
}

const (
	// maxPointers is how many names are searched for the end of another one. Nearly all end like the question's.
	maxPointers = 32
	// lastTarget is the end of the offsets to which a pointer can point.
	lastTarget = 1 << 14
	pointer    = 0xc000
	optLength  = 11
)

// begin begins the reply to a request.
func (r *reply) begin(q *query, limit int) {
	r.bytes = append(append(r.bytes[:0], make([]byte, headerLength)...), q.section...)
	r.names = append(r.names[:0], writtenName{q.name, headerLength, len(q.name)})
	r.counts, r.truncated, r.failed, r.limit = [3]uint16{}, false, false, limit
	if q.edns {
		r.limit -= optLength
	}
}

// add adds a record to a section.
func (r *reply) add(section int, rec record) {
	if r.truncated {
		return
	}
	start, names := len(r.bytes), len(r.names)
	r.name(rec.owner)
	r.bytes = binary.BigEndian.AppendUint16(r.bytes, rec.kind)
	r.bytes = binary.BigEndian.AppendUint16(r.bytes, wire.ClassINET)
	r.bytes = binary.BigEndian.AppendUint32(r.bytes, r.ttl)
	r.bytes = append(r.bytes, 0, 0) // the length of what follows
	content := len(r.bytes)
	r.content(rec)
	binary.BigEndian.PutUint16(r.bytes[content-2:], uint16(len(r.bytes)-content))
	if len(r.bytes) > r.limit {
		r.bytes, r.names, r.truncated = r.bytes[:start], r.names[:names], true
		return
	}
	r.counts[section]++
}

// content writes what is specific to the type of a record.
func (r *reply) content(rec record) {
	switch rec.kind {
	case wire.TypeA:
		a := rec.address.As4()
		r.bytes = append(r.bytes, a[:]...)
	case wire.TypeAAAA:
		a := rec.address.As16()
		r.bytes = append(r.bytes, a[:]...)
	case wire.TypeTXT:
		r.label(rec.target)
	case wire.TypeSRV:
		r.numbers16(0, srvWeight, rec.port)
		r.wholeName(rec.target) // RFC 2782 forbids to compress it
	case wire.TypeSOA:
		r.name(rec.target)
		r.label("hostmaster")
		r.name(rec.owner)
		for _, n := range []uint32{soaSerial, soaRefresh, soaRetry, soaExpire, r.ttl} {
			r.bytes = binary.BigEndian.AppendUint32(r.bytes, n)
		}
	default:
		r.name(rec.target)
	}
}

func (r *reply) numbers16(all ...uint16) {
	for _, n := range all {
		r.bytes = binary.BigEndian.AppendUint16(r.bytes, n)
	}
}

// name writes a name that ends with a dot, with a pointer to the longest end of it that is in the message already.
func (r *reply) name(text string) {
	at := len(r.bytes)
	rest := text
	for rest != "" {
		if to, ok := r.find(rest); ok {
			r.bytes = binary.BigEndian.AppendUint16(r.bytes, pointer|uint16(to))
			break
		}
		rest = r.first(rest)
	}
	if rest == "" {
		r.bytes = append(r.bytes, 0)
	}
	r.remember(text, at, len(text)-len(rest))
}

// wholeName writes a name without pointers.
func (r *reply) wholeName(text string) {
	at := len(r.bytes)
	for rest := text; rest != ""; {
		rest = r.first(rest)
	}
	r.bytes = append(r.bytes, 0)
	r.remember(text, at, len(text))
}

func (r *reply) remember(text string, at, length int) {
	if length > 0 && len(r.names) < maxPointers && at+length < lastTarget {
		r.names = append(r.names, writtenName{text, at, length})
	}
}

// first writes the first label of a name, and returns the others.
func (r *reply) first(text string) (rest string) {
	label, rest, _ := strings.Cut(text, ".")
	if label == "" || len(label) > maxLabel {
		r.failed = true
		return ""
	}
	r.label(label)
	return rest
}

func (r *reply) label(text string) { r.bytes = append(append(r.bytes, byte(len(text))), text...) }

// find returns the offset of a name in the message.
func (r *reply) find(name string) (int, bool) {
	for _, n := range r.names {
		from := len(n.text) - len(name)
		if from >= 0 && from < n.length && n.text[from:] == name && (from == 0 || n.text[from-1] == '.') {
			return n.at + from, true
		}
	}
	return 0, false
}

// end writes the header and, if the client uses EDNS, OPT. The result is valid until the next reply begins.
func (r *reply) end(q *query, code int, authoritative bool) []byte {
	if r.failed {
		r.begin(q, r.limit)
		code, authoritative = wire.RcodeServerFailure, false
	}
	flags := q.flags&(opcodeMask<<opcodeShift) | flagReply | flagRecursionAvailable | uint16(code&0xf)
	if q.opcode() == wire.OpcodeQuery {
		flags |= q.flags & (flagRecursionDesired | flagCheckingDisabled)
	}
	if authoritative {
		flags |= flagAuthoritative
	}
	if r.truncated {
		flags |= flagTruncated
	}
	if q.edns {
		r.opt(q, code)
	}
	for i, n := range [...]uint16{q.id, flags, uint16(min(q.questions, 1)), r.counts[0], r.counts[1], r.counts[2]} {
		binary.BigEndian.PutUint16(r.bytes[2*i:], n)
	}
	return r.bytes
}

// opt writes OPT, which has the upper bits of the code.
func (r *reply) opt(q *query, code int) {
	ttl := uint32(code>>4) << 24
	if q.dnssec {
		ttl |= dnssecOK
	}
	r.bytes = append(r.bytes, 0) // the root's name
	r.numbers16(wire.TypeOPT, largeSize)
	r.bytes = binary.BigEndian.AppendUint32(r.bytes, ttl)
	r.numbers16(0)
	r.counts[additionalSection]++
}
