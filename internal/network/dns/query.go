package dns

import (
	"encoding/binary"
	"unsafe"

	wire "github.com/miekg/dns"
)

// The lengths of a message's header, and of what follows a name in a question and in a record.
const (
	headerLength = 12
	kindAndClass = 4
	recordHeader = 10
)

// The flags of a header.
const (
	flagReply              = 1 << 15
	flagAuthoritative      = 1 << 10
	flagTruncated          = 1 << 9
	flagRecursionDesired   = 1 << 8
	flagRecursionAvailable = 1 << 7
	flagCheckingDisabled   = 1 << 4

	opcodeShift, opcodeMask = 11, 0xf
)

// query is what a reply to a request depends on. One after the other is read into the same memory, and nothing is
// allocated for it.
type query struct {
	id, flags uint16
	questions int
	section   []byte // the first question as the client wrote it: a part of the request
	name      string // its name, in lower case, in the memory of text. A dot within a label is replaced by a backslash, which no name of the cluster has.
	text      []byte
	kind      uint16
	class     uint16
	edns      bool
	version   uint8
	dnssec    bool
	size      uint16 // of the largest datagram that the client accepts; 0 without EDNS
}

// parse reads a request. It fails for messages that are malformed, and for replies. The name of the request before is
// no longer valid.
func (q *query) parse(m []byte) bool {
	*q = query{text: q.text[:0]}
	if len(m) < headerLength {
		return false
	}
	q.id, q.flags = binary.BigEndian.Uint16(m), binary.BigEndian.Uint16(m[2:])
	q.questions = int(binary.BigEndian.Uint16(m[4:]))
	at := headerLength
	for i := range q.questions {
		if i == 0 {
			at = q.readName(m, at)
		} else {
			at = skipName(m, at)
		}
		if at < 0 || at+kindAndClass > len(m) {
			return false
		}
		if i == 0 {
			q.kind, q.class = binary.BigEndian.Uint16(m[at:]), binary.BigEndian.Uint16(m[at+2:])
			q.section = m[headerLength : at+kindAndClass]
		}
		at += kindAndClass
	}
	for section := 6; section < headerLength; section += 2 {
		for range binary.BigEndian.Uint16(m[section:]) {
			if at = q.record(m, at); at < 0 {
				return false
			}
		}
	}
	return q.flags&flagReply == 0
}

// record reads a record, of which only OPT matters, and returns where the next one begins, or -1.
func (q *query) record(m []byte, at int) int {
	at = skipName(m, at)
	if at < 0 || at+recordHeader > len(m) {
		return -1
	}
	kind, class, ttl := binary.BigEndian.Uint16(m[at:]), binary.BigEndian.Uint16(m[at+2:]), binary.BigEndian.Uint32(m[at+4:])
	length := int(binary.BigEndian.Uint16(m[at+8:]))
	if kind == wire.TypeOPT {
		q.edns, q.size, q.version, q.dnssec = true, class, uint8(ttl>>16), ttl&dnssecOK != 0
	}
	if at += recordHeader + length; at > len(m) {
		return -1
	}
	return at
}

// dnssecOK is the flag DO in the TTL field of OPT.
const dnssecOK = 1 << 15

// readName reads a name that is not compressed, and returns what follows it, or -1.
func (q *query) readName(m []byte, at int) int {
	for {
		if at >= len(m) {
			return -1
		}
		length := int(m[at])
		if at++; length == 0 {
			break
		}
		if length > maxLabel || at+length > len(m) || len(q.text)+length+1 >= maxName {
			return -1
		}
		for _, c := range m[at : at+length] {
			q.text = append(q.text, lowered(c))
		}
		q.text = append(q.text, '.')
		at += length
	}
	if len(q.text) == 0 {
		q.text = append(q.text, '.')
	}
	q.name = unsafe.String(unsafe.SliceData(q.text), len(q.text))
	return at
}

// The maximum lengths of a label, and of a name with the length of each label.
const (
	maxLabel = 63
	maxName  = 255
)

func lowered(c byte) byte {
	switch {
	case c == '.':
		return '\\'
	case 'A' <= c && c <= 'Z':
		return c - 'A' + 'a'
	}
	return c
}

// skipName returns what follows a name, or -1.
func skipName(m []byte, at int) int {
	for at >= 0 && at < len(m) {
		switch length := int(m[at]); {
		case length == 0:
			return at + 1
		case length > maxLabel: // a pointer to the rest of the name, of two bytes
			return at + 2
		default:
			at += 1 + length
		}
	}
	return -1
}

// refusal returns the code of the reply to a request that is not an ordinary question.
func (q *query) refusal() (code int, refused bool) {
	switch {
	case q.opcode() != wire.OpcodeQuery:
		return wire.RcodeNotImplemented, true
	case q.questions != 1:
		return wire.RcodeFormatError, true
	case q.version != 0:
		return wire.RcodeBadVers, true
	case q.class != wire.ClassINET, q.kind == wire.TypeAXFR, q.kind == wire.TypeIXFR:
		return wire.RcodeRefused, true
	}
	return 0, false
}

func (q *query) opcode() int { return int(q.flags >> opcodeShift & opcodeMask) }

// datagramSize is the size of the largest datagram that the client accepts and that no network fragments.
func (q *query) datagramSize() int {
	return min(max(int(q.size), plainSize), largeSize)
}
