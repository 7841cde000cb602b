//go:build linux

package nft

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// attributes is a list of encoded netlink attributes. Numbers of nf_tables are big-endian.
type attributes []byte

// header is the size of an attribute's header.
const header = unix.SizeofNlAttr

func (a *attributes) bytes(kind uint16, value []byte) {
	*a = binary.NativeEndian.AppendUint16(*a, uint16(header+len(value)))
	*a = binary.NativeEndian.AppendUint16(*a, kind)
	*a = append(*a, value...)
	a.align()
}

func (a *attributes) align() {
	for len(*a)%unix.NLA_ALIGNTO != 0 {
		*a = append(*a, 0)
	}
}

func (a *attributes) text(kind uint16, value string) {
	*a = binary.NativeEndian.AppendUint16(*a, uint16(header+len(value)+1))
	*a = binary.NativeEndian.AppendUint16(*a, kind)
	*a = append(*a, value...)
	*a = append(*a, 0)
	a.align()
}

func (a *attributes) number(kind uint16, value uint32) {
	a.bytes(kind, binary.BigEndian.AppendUint32(nil, value))
}

func (a *attributes) long(kind uint16, value uint64) {
	a.bytes(kind, binary.BigEndian.AppendUint64(nil, value))
}

// nest writes an attribute that contains attributes.
func (a *attributes) nest(kind uint16, inner func()) {
	at := a.beginNested(kind)
	inner()
	a.endNested(at)
}

// beginNested begins a nested attribute, and endNested ends it.
func (a *attributes) beginNested(kind uint16) int {
	at := len(*a)
	*a = binary.NativeEndian.AppendUint16(*a, 0)
	*a = binary.NativeEndian.AppendUint16(*a, kind|unix.NLA_F_NESTED)
	return at
}

func (a *attributes) endNested(at int) {
	binary.NativeEndian.PutUint16((*a)[at:], uint16(len(*a)-at))
}

// each calls f for each attribute of an encoded list.
func each(list []byte, f func(kind uint16, value []byte)) {
	for len(list) >= header {
		size := int(binary.NativeEndian.Uint16(list))
		kind := binary.NativeEndian.Uint16(list[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if size < header || size > len(list) {
			return
		}
		f(kind, list[header:size])
		list = list[min(len(list), (size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
}

// attribute returns the value of the first attribute of a kind.
func attribute(list []byte, wanted uint16) []byte {
	var out []byte
	each(list, func(kind uint16, value []byte) {
		if kind == wanted && out == nil {
			out = value
		}
	})
	return out
}

// textOf returns the text of an attribute without the zero byte at its end.
func textOf(value []byte) string {
	for i, b := range value {
		if b == 0 {
			return string(value[:i])
		}
	}
	return string(value)
}
