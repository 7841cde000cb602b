package transcode

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// value writes one value. Without bytes it is the type's zero value.
func (t *text) value(f *field, b []byte) bool {
	switch f.value {
	case stringValue:
		t.string(b)
	case boolValue:
		t.out = strconv.AppendBool(t.out, number(b) != 0)
	case int32Value:
		t.out = strconv.AppendInt(t.out, int64(int32(number(b))), 10)
	case int64Value:
		t.out = strconv.AppendInt(t.out, int64(number(b)), 10)
	case bytesValue:
		t.out = append(t.out, '"')
		t.out = base64.StdEncoding.AppendEncode(t.out, b)
		t.out = append(t.out, '"')
	case structValue:
		return t.message(f.sub, b)
	case timeValue:
		return t.time(b)
	case microTimeValue:
		return t.microTime(b)
	case quantityValue:
		return t.quantity(b)
	case intOrStringValue:
		return t.intOrString(b)
	case fieldsV1Value, rawExtensionValue:
		return t.raw(f.value, b)
	case stringsValue:
		return t.strings(b)
	default:
		return false
	}
	return true
}

// number reads a varint that find has been over.
func number(b []byte) uint64 {
	if len(b) == 1 {
		return uint64(b[0])
	}
	v, _ := protowire.ConsumeVarint(b)
	return v
}

// members reads a message of a few fields whose numbers begin at 1. They come once, and all of one type have the same place
// in the result.
func members(b []byte, types ...protowire.Type) (found [3][]byte, ok bool) {
	for at := 0; at < len(b); {
		tag := b[at]
		n := int(tag >> 3)
		if tag >= 0x80 || n == 0 || n > len(types) || protowire.Type(tag&7) != types[n-1] || found[n-1] != nil {
			return found, false
		}
		from, to := extent(b, at+1, types[n-1])
		if to < 0 {
			return found, false
		}
		found[n-1] = b[from:to:to]
		at = to
	}
	return found, true
}

// timestamp reads seconds and nanoseconds.
func timestamp(b []byte) (seconds int64, nanos int32, ok bool) {
	m, ok := members(b, protowire.VarintType, protowire.VarintType)
	return int64(number(m[0])), int32(number(m[1])), ok
}

// timeOf reads a time; it is the zero one without bytes. Kubernetes passes over the nanoseconds of such times.
func timeOf(b []byte) (time.Time, bool) {
	if len(b) == 0 {
		return time.Time{}, true
	}
	seconds, _, ok := timestamp(b)
	return time.Unix(seconds, 0).UTC(), ok
}

func (t *text) time(b []byte) bool {
	at, ok := timeOf(b)
	switch {
	case !ok:
		return false
	case at.IsZero():
		t.out = append(t.out, "null"...)
	default:
		t.out = append(t.out, '"')
		t.out = at.AppendFormat(t.out, time.RFC3339)
		t.out = append(t.out, '"')
	}
	return true
}

func (t *text) microTime(b []byte) bool {
	var at time.Time
	if len(b) > 0 {
		seconds, nanos, ok := timestamp(b)
		if !ok {
			return false
		}
		at = time.Unix(seconds, int64(time.Duration(nanos).Truncate(time.Microsecond))).UTC()
	}
	if at.IsZero() {
		t.out = append(t.out, "null"...)
		return true
	}
	t.out = append(t.out, '"')
	if year := at.Year(); year < 0 || year > 9999 {
		t.out = at.AppendFormat(t.out, metav1.RFC3339Micro)
	} else { // three times as fast, for the layout is known to package time
		t.out = at.AppendFormat(t.out, time.RFC3339)
		micros := at.Nanosecond() / int(time.Microsecond)
		t.out = append(t.out[:len(t.out)-len("Z")], '.')
		for unit := 100_000; unit > 0; unit /= 10 {
			t.out = append(t.out, byte('0'+micros/unit%10))
		}
		t.out = append(t.out, 'Z')
	}
	t.out = append(t.out, '"')
	return true
}

func (t *text) quantity(b []byte) bool {
	m, ok := members(b, protowire.BytesType)
	s := m[0]
	if !ok {
		return false
	}
	if s == nil {
		s = []byte("0")
	}
	if !canonical(s) {
		q, err := resource.ParseQuantity(string(s))
		if err != nil {
			return false
		}
		s = []byte(q.String())
	}
	t.out = append(t.out, '"')
	t.out = append(t.out, s...)
	t.out = append(t.out, '"')
	return true
}

func (t *text) intOrString(b []byte) bool {
	m, ok := members(b, protowire.VarintType, protowire.VarintType, protowire.BytesType)
	if !ok {
		return false
	}
	switch intstr.Type(number(m[0])) {
	case intstr.Int:
		t.out = strconv.AppendInt(t.out, int64(int32(number(m[1]))), 10)
	case intstr.String:
		t.string(m[2])
	default:
		return false
	}
	return true
}

// raw writes JSON that is kept as such. Almost all of it is just as encoding/json would write it.
func (t *text) raw(v value, b []byte) bool {
	m, ok := members(b, protowire.BytesType)
	switch raw := m[0]; {
	case !ok:
		return false
	case raw == nil:
		t.out = append(t.out, "null"...)
		return true
	case verbatim(raw):
		t.out = append(t.out, raw...)
		return true
	case v == fieldsV1Value:
		return t.marshal(metav1.NewFieldsV1(string(raw)))
	default:
		return t.marshal(runtime.RawExtension{Raw: raw})
	}
}

func (t *text) marshal(v json.Marshaler) bool {
	b, err := json.Marshal(v)
	t.out = append(t.out, b...)
	return err == nil
}

// strings writes a message that holds nothing but strings. In maps such lists are never null.
func (t *text) strings(b []byte) bool {
	if len(b) == 0 {
		t.out = append(t.out, "[]"...)
		return true
	}
	t.out = append(t.out, '[')
	for at := 0; at < len(b); {
		const tag = 1<<3 | byte(protowire.BytesType)
		from, to := extent(b, at+1, protowire.BytesType)
		if b[at] != tag || to < 0 {
			return false
		}
		t.string(b[from:to])
		t.out = append(t.out, ',')
		at = to
	}
	t.out[len(t.out)-1] = ']'
	return true
}
