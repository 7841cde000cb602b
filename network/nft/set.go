//go:build linux

package nft

import (
	"time"

	"golang.org/x/sys/unix"
)

// Type is what one field of a key or value holds. Only its size matters to the kernel; the rest is for those who read a listing.
type Type struct {
	code uint32
	size int // bytes
}

// The types.
var (
	Mark      = Type{19, 4}
	Address4  = Type{7, 4}
	Address6  = Type{8, 16}
	Protocol  = Type{12, 1}
	Port      = Type{13, 2}
	Integer   = Type{4, 4}
	Interface = Type{41, 16}
)

// room is the size of a field in registers: whole words of four bytes.
func (t Type) room() int { return (t.size + 3) &^ 3 }

// Set is a set, or with a value a map. A map with the value Verdict leads to chains.
type Set struct {
	Name     string
	Key      []Type
	Value    []Type
	Verdict  bool
	Interval bool // elements are ranges
	Dynamic  bool // rules add elements
	Timeout  bool // elements can expire
	Size     uint32
}

// Length is the size of a key.
func (s *Set) Length() int { return length(s.Key) }

func length(types []Type) int {
	n := 0
	for _, t := range types {
		n += t.room()
	}
	return n
}

func code(types []Type) uint32 {
	var c uint32
	for _, t := range types {
		c = c<<6 | t.code
	}
	return c
}

func (s *Set) flags() uint32 {
	var f uint32
	for flag, on := range map[uint32]bool{
		unix.NFT_SET_INTERVAL: s.Interval, unix.NFT_SET_MAP: s.Verdict || s.Value != nil,
		unix.NFT_SET_EVAL: s.Dynamic, unix.NFT_SET_TIMEOUT: s.Timeout, concatenated: s.Interval && len(s.Key) > 1,
	} {
		if on {
			f |= flag
		}
	}
	return f
}

// concatenated is NFT_SET_CONCAT, which the unix package does not have.
const concatenated = 0x80

// Attributes of a set's description that the unix package does not have: NFTA_SET_DESC_CONCAT and NFTA_SET_FIELD_LEN.
const (
	descConcat  = 2
	fieldLength = 1
)

// verdictType is NFT_DATA_VERDICT.
const verdictType = 0xffffff00

// AddSet makes a set, if it is not there.
func (b *Batch) AddSet(t Table, s *Set) {
	b.message(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, t.Family, "add set "+s.Name, func(a *attributes) {
		a.text(unix.NFTA_SET_TABLE, t.Name)
		a.text(unix.NFTA_SET_NAME, s.Name)
		a.number(unix.NFTA_SET_FLAGS, s.flags())
		a.number(unix.NFTA_SET_KEY_TYPE, code(s.Key))
		a.number(unix.NFTA_SET_KEY_LEN, uint32(s.Length()))
		switch {
		case s.Verdict:
			a.number(unix.NFTA_SET_DATA_TYPE, verdictType)
		case s.Value != nil:
			a.number(unix.NFTA_SET_DATA_TYPE, code(s.Value))
			a.number(unix.NFTA_SET_DATA_LEN, uint32(length(s.Value)))
		}
		a.number(unix.NFTA_SET_ID, uint32(b.setID()))
		if s.Size > 0 || s.Interval && len(s.Key) > 1 {
			a.nest(unix.NFTA_SET_DESC, func() { s.describe(a) })
		}
	})
}

func (s *Set) describe(a *attributes) {
	if s.Size > 0 {
		a.number(unix.NFTA_SET_DESC_SIZE, s.Size)
	}
	if !s.Interval || len(s.Key) < 2 {
		return
	}
	a.nest(descConcat, func() {
		for _, t := range s.Key {
			a.nest(unix.NFTA_LIST_ELEM, func() { a.number(fieldLength, uint32(t.size)) })
		}
	})
}

// setID numbers the sets of a batch, which the kernel asks for.
func (b *Batch) setID() uint32 {
	b.sets++
	return b.sets
}

// Element is a member of a set. In a map it has data, or leads to a chain.
type Element struct {
	Key  string
	End  string // of an interval with several fields: the last key of the range
	Data string
	Goto string
	// Last marks the key behind the end of an interval with one field.
	Last bool
	// Timeout is after how long it goes, if the set has time-outs.
	Timeout time.Duration
}

// The kinds of verdict attributes, and the word that leads to a chain and does not come back.
const gotoChain = -4 & 0xffffffff

// largest is how many bytes of elements a message holds: the kernel gives the size of a list 16 bits.
const largest = 60000

// AddElements puts elements into a set. Those that are there already must have the same data.
func (b *Batch) AddElements(t Table, set string, all []Element) {
	b.elements(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, t, "add elements to "+set, set, all)
}

// DeleteElements removes elements, which must be there.
func (b *Batch) DeleteElements(t Table, set string, all []Element) {
	b.elements(unix.NFT_MSG_DELSETELEM, 0, t, "delete elements of "+set, set, all)
}

// FlushSet removes all elements of a set.
func (b *Batch) FlushSet(t Table, set string) {
	b.message(unix.NFT_MSG_DELSETELEM, 0, t.Family, "flush set "+set, func(a *attributes) {
		a.text(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name)
		a.text(unix.NFTA_SET_ELEM_LIST_SET, set)
	})
}

func (b *Batch) elements(kind, flags uint16, t Table, what, set string, all []Element) {
	for len(all) > 0 {
		b.message(kind, flags, t.Family, what, func(a *attributes) {
			a.text(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name)
			a.text(unix.NFTA_SET_ELEM_LIST_SET, set)
			list := a.open(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
			for len(all) > 0 && len(*a)-list < largest {
				all[0].encode(a, kind == unix.NFT_MSG_DELSETELEM)
				all = all[1:]
			}
			a.shut(list)
		})
	}
}

// encode writes an element. To delete one, its key says enough.
func (e *Element) encode(a *attributes, keyOnly bool) {
	at := a.open(unix.NFTA_LIST_ELEM)
	a.value(unix.NFTA_SET_ELEM_KEY, e.Key)
	if e.End != "" {
		a.value(setElemKeyEnd, e.End)
	}
	if e.Last {
		a.number(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	if !keyOnly {
		if e.Goto != "" {
			data := a.open(unix.NFTA_SET_ELEM_DATA)
			a.verdict(gotoChain, e.Goto)
			a.shut(data)
		} else if e.Data != "" {
			a.value(unix.NFTA_SET_ELEM_DATA, e.Data)
		}
		if e.Timeout > 0 {
			a.long(unix.NFTA_SET_ELEM_TIMEOUT, uint64(e.Timeout.Milliseconds()))
		}
	}
	a.shut(at)
}

// setElemKeyEnd is NFTA_SET_ELEM_KEY_END.
const setElemKeyEnd = 10

// value writes data as nf_tables wraps it.
func (a *attributes) value(kind uint16, data string) {
	at := a.open(kind)
	inner := a.open(unix.NFTA_DATA_VALUE)
	*a = append(*a, data...)
	a.shut(inner)
	a.align()
	a.shut(at)
}

func (a *attributes) verdict(verdict uint32, chain string) {
	a.nest(unix.NFTA_DATA_VERDICT, func() {
		a.number(unix.NFTA_VERDICT_CODE, verdict)
		if chain != "" {
			a.text(unix.NFTA_VERDICT_CHAIN, chain)
		}
	})
}
