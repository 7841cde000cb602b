//go:build linux

package nft

import (
	"time"

	"golang.org/x/sys/unix"
)

// Type is the type of one field of a key or value. The kernel uses only its size; the code is for programs that list
// the set.
type Type struct {
	code uint32
	size int // bytes
}

// Types of fields.
var (
	Mark      = Type{19, 4}
	Address4  = Type{7, 4}
	Address6  = Type{8, 16}
	Protocol  = Type{12, 1}
	Port      = Type{13, 2}
	Integer   = Type{4, 4}
	Interface = Type{41, 16}
)

// paddedSize is the size of a field in registers, which are four bytes long.
func (t Type) paddedSize() int { return (t.size + 3) &^ 3 }

// Set is a set, or with a Value a map. A map with the value Verdict maps keys to chains.
type Set struct {
	Name     string
	Key      []Type
	Value    []Type
	Verdict  bool
	Interval bool // elements are ranges
	Dynamic  bool // rules can add elements
	Timeout  bool // elements can expire
	Size     uint32
}

// Length returns the size of a key.
func (s *Set) Length() int { return length(s.Key) }

func length(types []Type) int {
	n := 0
	for _, t := range types {
		n += t.paddedSize()
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

// AddSet makes a set if it does not exist.
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

// setID returns a new number for a set, which the kernel requires in a batch.
func (b *Batch) setID() uint32 {
	b.sets++
	return b.sets
}

// Element is an element of a set. In a map it has data or the name of a chain.
type Element struct {
	Key  string
	End  string // in an interval set with several fields: the last key of the range
	Data string
	Goto string
	// Last marks the key after the end of an interval of one field.
	Last bool
	// Timeout is how long the element exists, if the set has timeouts.
	Timeout time.Duration
}

// The code of the verdict "goto a chain".
const gotoChain = -4 & 0xffffffff

// maxElementsSize is how many bytes of elements a message contains at most: the size of a list has 16 bits in the
// kernel.
const maxElementsSize = 60000

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
			list := a.beginNested(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
			for len(all) > 0 && len(*a)-list < maxElementsSize {
				all[0].encode(a, kind == unix.NFT_MSG_DELSETELEM)
				all = all[1:]
			}
			a.endNested(list)
		})
	}
}

// encode writes an element. To delete one, its key says enough.
func (e *Element) encode(a *attributes, keyOnly bool) {
	at := a.beginNested(unix.NFTA_LIST_ELEM)
	a.value(unix.NFTA_SET_ELEM_KEY, e.Key)
	if e.End != "" {
		a.value(setElemKeyEnd, e.End)
	}
	if e.Last {
		a.number(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	if !keyOnly {
		if e.Goto != "" {
			data := a.beginNested(unix.NFTA_SET_ELEM_DATA)
			a.verdict(gotoChain, e.Goto)
			a.endNested(data)
		} else if e.Data != "" {
			a.value(unix.NFTA_SET_ELEM_DATA, e.Data)
		}
		if e.Timeout > 0 {
			a.long(unix.NFTA_SET_ELEM_TIMEOUT, uint64(e.Timeout.Milliseconds()))
		}
	}
	a.endNested(at)
}

// setElemKeyEnd is NFTA_SET_ELEM_KEY_END.
const setElemKeyEnd = 10

// value writes data as nf_tables wraps it.
func (a *attributes) value(kind uint16, data string) {
	at := a.beginNested(kind)
	inner := a.beginNested(unix.NFTA_DATA_VALUE)
	*a = append(*a, data...)
	a.endNested(inner)
	a.align()
	a.endNested(at)
}

func (a *attributes) verdict(verdict uint32, chain string) {
	a.nest(unix.NFTA_DATA_VERDICT, func() {
		a.number(unix.NFTA_VERDICT_CODE, verdict)
		if chain != "" {
			a.text(unix.NFTA_VERDICT_CHAIN, chain)
		}
	})
}
