package transcode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/protobuf"
)

// The values that only schemas of custom resources have.

// float reads a number that find has checked.
func float(b []byte) float64 {
	if len(b) == 0 {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func appendFloat(out []byte, f float64) []byte {
	text, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	return append(out, text...)
}

// appendJSON writes a value that the message has as JSON.
func appendJSON(out, b []byte) []byte {
	m, ok := members(b, protowire.BytesType)
	switch raw := m[0]; {
	case !ok:
		return nil
	case len(raw) == 0 || bytes.Equal(raw, null):
		return append(out, null...)
	case jsontext.Verbatim(raw):
		return append(out, raw...)
	default:
		return appendMarshaled(out, apiextensions.JSON{Raw: raw})
	}
}

var null = []byte("null")

// The tags of the messages that hold a schema or a list of something else.
const (
	schemaTag = 1<<3 | byte(protowire.BytesType)
	otherTag  = 2<<3 | byte(protowire.BytesType)
)

// schemaOrList writes the list if it has elements, and else the schema. Without both it is null.
func (r *reader) schemaOrList(out []byte, f *field, b []byte, element func(out, b []byte) []byte) []byte {
	var schema []byte
	begin := len(out)
	out = append(out, '[')
	for at := 0; at < len(b); {
		tag := b[at]
		from, to := protobuf.Extent(b, at+1, protowire.BytesType)
		switch {
		case to < 0:
			return nil
		case tag == otherTag:
			if out = element(out, b[from:to]); out == nil {
				return nil
			}
			out = append(out, ',')
		case tag == schemaTag && schema == nil:
			schema = b[from:to:to]
		default:
			return nil
		}
		at = to
	}
	if end := len(out); end > begin+1 {
		out[end-1] = ']'
		if schema != nil && r.message(out, f.sub, schema) == nil { // JSON does not show it, but it must be valid
			return nil
		}
		return out
	}
	if out = out[:begin]; schema == nil {
		return append(out, null...)
	}
	return r.message(out, f.sub, schema)
}

func (r *reader) schemaOrSchemas(out []byte, f *field, b []byte) []byte {
	return r.schemaOrList(out, f, b, func(out, b []byte) []byte { return r.message(out, f.sub, b) })
}

func (r *reader) schemaOrStrings(out []byte, f *field, b []byte) []byte {
	return r.schemaOrList(out, f, b, jsontext.Quote[[]byte])
}

func (r *reader) schemaOrBool(out []byte, f *field, b []byte) []byte {
	m, ok := members(b, protowire.VarintType, protowire.BytesType)
	switch {
	case !ok:
		return nil
	case m[1] != nil:
		return r.message(out, f.sub, m[1])
	case m[0] != nil && number(m[0]) != 0:
		return append(out, "true"...)
	}
	return append(out, "false"...)
}
