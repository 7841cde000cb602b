package transcode

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// message writes a struct.
func (t *text) message(m *message, b []byte) bool {
	t.out = append(t.out, '{')
	if !t.fields(m, b) {
		return false
	}
	t.out = append(t.out, '}')
	return true
}

// fields writes what is between a struct's braces.
func (t *text) fields(m *message, b []byte) bool {
	base := len(t.spans)
	t.spans = slices.Grow(t.spans, len(m.fields))[:base+len(m.fields)]
	found := t.spans[base:]
	clear(found)
	if len(b) > 0 && !m.find(b, found) {
		return false
	}
	for i := range m.fields {
		// The spans may move while a field is written.
		if !t.field(&m.fields[i], b, t.spans[base+i]) {
			return false
		}
	}
	t.spans = t.spans[:base]
	return true
}

// find notes where in the message each field is.
func (m *message) find(b []byte, spans []span) bool {
	for at := 0; at < len(b); {
		tag, start := uint64(b[at]), at
		if at++; tag >= 0x80 {
			var n int
			if tag, n = protowire.ConsumeVarint(b[start:]); n < 0 {
				return false
			}
			at = start + n
		}
		var f *field
		index := 0
		if number := tag >> 3; number < uint64(len(m.byNumber)) && m.byNumber[number] > 0 {
			index = int(m.byNumber[number]) - 1
			f = &m.fields[index]
		} else if !m.lenient || number == 0 || number > uint64(protowire.MaxValidNumber) {
			return false
		}
		from, to := extent(b, at, protowire.Type(tag&7))
		if to < 0 {
			return false
		}
		at = to
		if f == nil {
			continue
		}
		if varint := tag&7 == uint64(protowire.VarintType); varint != f.value.varint() {
			return false
		}
		s := &spans[index]
		switch {
		case f.shape == list || f.shape == dict:
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

// extent tells where a value begins and ends, given where its tag ended. It knows the two types that objects are made of.
func extent(b []byte, at int, t protowire.Type) (from, to int) {
	switch t {
	case protowire.VarintType:
		_, n := protowire.ConsumeVarint(b[at:])
		if n < 0 {
			return 0, -1
		}
		return at, at + n
	case protowire.BytesType:
		size, n := protowire.ConsumeVarint(b[at:])
		if n < 0 || size > uint64(len(b)-at-n) {
			return 0, -1
		}
		return at + n, at + n + int(size)
	}
	return 0, -1
}

// next reads one of a field's values, given that find has been over them. It passes over other fields in between.
func (f *field) next(b []byte) (value, rest []byte, ok bool) {
	for len(b) > 0 {
		tag, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return nil, nil, false
		}
		from, to := extent(b, n, protowire.Type(tag&7))
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

// name begins a field.
func (t *text) name(f *field) {
	lead := f.lead
	if t.out[len(t.out)-1] == '{' {
		lead = lead[1:]
	}
	t.out = append(t.out, lead...)
}

// field writes one field, or nothing where it is left out.
func (t *text) field(f *field, b []byte, s span) bool {
	present := s.from != 0
	switch f.shape {
	case inline:
		return t.fields(f.sub, b[s.from:s.to])
	case single:
		return t.single(f, b[s.from:s.to])
	case list, dict:
		if present {
			t.name(f)
			if f.shape == list {
				return t.list(f, b[s.from-1:s.to])
			}
			return t.dict(f, b[s.from-1:s.to])
		}
	case pointer:
		if present {
			t.name(f)
			return t.value(f, b[s.from:s.to])
		}
	case bytes_:
		if s.to > s.from || present && !f.omitEmpty {
			t.name(f)
			return t.value(f, b[s.from:s.to])
		}
	}
	if !f.omitEmpty {
		t.name(f)
		t.out = append(t.out, "null"...)
	}
	return true
}

// single writes a field that always has a value: where the message has none, it is the type's zero value.
func (t *text) single(f *field, b []byte) bool {
	if f.value == versionValue {
		if t.version != "" {
			t.name(f)
			t.string([]byte(t.version))
		}
		return true
	}
	if f.omitEmpty || f.omitZero {
		switch f.value {
		case stringValue:
			if len(b) == 0 {
				return true
			}
		case boolValue, int64Value:
			if number(b) == 0 {
				return true
			}
		case int32Value:
			if int32(number(b)) == 0 {
				return true
			}
		case timeValue:
			if at, ok := timeOf(b); !ok || f.omitZero && at.IsZero() {
				return ok
			}
		}
	}
	t.name(f)
	return t.value(f, b)
}

func (t *text) list(f *field, b []byte) bool {
	t.out = append(t.out, '[')
	for len(b) > 0 {
		v, rest, ok := f.next(b)
		if !ok || !t.value(f, v) {
			return false
		}
		t.out = append(t.out, ',')
		b = rest
	}
	t.out[len(t.out)-1] = ']'
	return true
}

// dict writes a map. Kubernetes writes maps by ascending key, as JSON shows them; others are refused.
func (t *text) dict(f *field, b []byte) bool {
	t.out = append(t.out, '{')
	var last []byte
	for first := true; len(b) > 0; first = false {
		pair, rest, ok := f.next(b)
		if !ok {
			return false
		}
		key, v, ok := f.pair(pair)
		if !ok || !first && bytes.Compare(last, key) >= 0 {
			return false
		}
		t.string(key)
		t.out = append(t.out, ':')
		if !t.value(f, v) {
			return false
		}
		t.out = append(t.out, ',')
		last, b = key, rest
	}
	t.out[len(t.out)-1] = '}'
	return true
}

// pair takes an entry of a map apart.
func (f *field) pair(b []byte) (key, value []byte, ok bool) {
	var seen [3]bool
	for at := 0; at < len(b); {
		tag := b[at]
		from, to := extent(b, at+1, protowire.Type(tag&7))
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
