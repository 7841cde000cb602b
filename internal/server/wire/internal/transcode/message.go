package transcode

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/protobuf"
)

// message writes a struct.
func (r *reader) message(out []byte, m *message, b []byte) []byte {
	if out = r.fields(append(out, '{'), m, b); out == nil {
		return nil
	}
	return append(out, '}')
}

// fields writes the members of a struct, without its braces.
func (r *reader) fields(out []byte, m *message, b []byte) []byte {
	base := len(r.spans)
	end := base + len(m.fields)
	if end > cap(r.spans) {
		r.spans = slices.Grow(r.spans, len(m.fields))
	}
	r.spans = r.spans[:end]
	found := r.spans[base:]
	clear(found)
	if len(b) > 0 && !m.find(b, found) {
		return nil
	}
	for i := range m.fields {
		f, s := &m.fields[i], found[i]
		if s.from == 0 && f.omitMissing {
			continue
		}
		if out = r.field(out, f, b, s); out == nil {
			return nil
		}
	}
	r.spans = r.spans[:base]
	return out
}

// find records where in the message each field is.
func (m *message) find(b []byte, spans []span) bool {
	for at := 0; at < len(b); {
		start := at
		tag, n := protobuf.Varint(b[at:])
		if n == 0 {
			return false
		}
		at += n
		var f *field
		index := 0
		if number := tag >> 3; number < uint64(len(m.byNumber)) && m.byNumber[number] > 0 {
			index = int(m.byNumber[number]) - 1
			f = &m.fields[index]
		} else if !m.lenient || number == 0 || number > uint64(protowire.MaxValidNumber) {
			return false
		}
		from, to := protobuf.Extent(b, at, protowire.Type(tag&7))
		if to < 0 {
			return false
		}
		at = to
		if f == nil {
			continue
		}
		if protowire.Type(tag&7) != f.wire {
			return false
		}
		s := &spans[index]
		switch {
		case f.cardinality == list || f.cardinality == dict:
			if s.to = uint32(to); s.from == 0 {
				s.from = uint32(start) + 1
			}
		case s.from != 0:
			return false
		default:
			*s = span{uint32(from), uint32(to)}
		}
	}
	return true
}

// next returns one of a field's values and skips other fields in between. find has checked the bytes before.
func (f *field) next(b []byte) (value, rest []byte, ok bool) {
	for len(b) > 0 {
		tag, n := protobuf.Varint(b)
		if n == 0 {
			return nil, nil, false
		}
		from, to := protobuf.Extent(b, n, protowire.Type(tag&7))
		if to < 0 {
			return nil, nil, false
		}
		if tag>>3 == uint64(f.number) {
			return b[from:to], b[to:], true
		}
		b = b[to:]
	}
	return nil, nil, false
}

// name writes the field's name.
func (f *field) name(out []byte) []byte {
	lead := f.lead
	if out[len(out)-1] == '{' {
		lead = lead[1:]
	}
	return append(out, lead...)
}

// field writes one field, or nothing if it is omitted.
func (r *reader) field(out []byte, f *field, b []byte, s span) []byte {
	present := s.from != 0
	switch f.cardinality {
	case inline:
		return r.fields(out, f.sub, b[s.from:s.to])
	case single:
		return r.single(out, f, b[s.from:s.to])
	case list, dict:
		if present {
			out = f.name(out)
			if f.cardinality == list {
				return r.list(out, f, b[s.from-1:s.to])
			}
			return r.dict(out, f, b[s.from-1:s.to])
		}
	case pointer:
		if present {
			return r.value(f.name(out), f, b[s.from:s.to])
		}
	case blob:
		if s.to > s.from || present && !f.omitEmpty {
			return r.value(f.name(out), f, b[s.from:s.to])
		}
	}
	if f.omitEmpty {
		return out
	}
	return append(f.name(out), "null"...)
}

// single writes a field that is not repeated; if the message does not have it, its zero value.
func (r *reader) single(out []byte, f *field, b []byte) []byte {
	if f.value == versionValue {
		if len(r.version) == 0 {
			return out
		}
		return jsontext.Quote(f.name(out), r.version)
	}
	if f.omitEmpty || f.omitZero {
		if zero, ok := f.zero(b); !ok {
			return nil
		} else if zero {
			return out
		}
	}
	return r.value(f.name(out), f, b)
}

// zero reports whether a value is omitted because it is empty. Structs are never omitted.
func (f *field) zero(b []byte) (zero, ok bool) {
	switch f.value {
	case stringValue:
		return len(b) == 0, true
	case boolValue, int64Value:
		return number(b) == 0, true
	case int32Value:
		return int32(number(b)) == 0, true
	case float64Value:
		return float(b) == 0, true
	case timeValue:
		at, ok := timeOf(b)
		return f.omitZero && at.IsZero(), ok
	}
	return false, true
}

func (r *reader) list(out []byte, f *field, b []byte) []byte {
	out = append(out, '[')
	for len(b) > 0 {
		v, rest, ok := f.next(b)
		if !ok {
			return nil
		}
		if out = r.value(out, f, v); out == nil {
			return nil
		}
		out = append(out, ',')
		b = rest
	}
	out[len(out)-1] = ']'
	return out
}

// dict writes a map. Kubernetes writes maps in protobuf by ascending key, the order of JSON; other orders are refused.
func (r *reader) dict(out []byte, f *field, b []byte) []byte {
	out = append(out, '{')
	var last []byte
	for first := true; len(b) > 0; first = false {
		pair, rest, ok := f.next(b)
		if !ok {
			return nil
		}
		key, v, ok := f.pair(pair)
		if !ok || !first && bytes.Compare(last, key) >= 0 {
			return nil
		}
		if out = r.value(append(jsontext.Quote(out, key), ':'), f, v); out == nil {
			return nil
		}
		out = append(out, ',')
		last, b = key, rest
	}
	out[len(out)-1] = '}'
	return out
}

// pair splits a map entry into key and value.
func (f *field) pair(b []byte) (key, value []byte, ok bool) {
	var seen [3]bool
	for at := 0; at < len(b); {
		tag := b[at]
		from, to := protobuf.Extent(b, at+1, protowire.Type(tag&7))
		number := tag >> 3
		if to < 0 || tag&7 != byte(protowire.BytesType) || number != 1 && number != 2 || seen[number] {
			return nil, nil, false
		}
		seen[number] = true
		if number == 1 {
			key = b[from:to]
		} else {
			value = b[from:to]
		}
		at = to
	}
	return key, value, true
}
