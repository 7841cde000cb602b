package tree

import (
	"bytes"
	"context"

	"github.com/millrace/millrace/internal/jsontext"
)

// Body returns the JSON of a stored object after its kind and version, with a resource version, without decoding the
// object. If ok is false, the object has to be decoded, because it may have to be shown differently.
func (t *trees) Body(ctx context.Context, stored, resourceVersion []byte) (body []byte, ok bool) {
	if t.Whole == nil {
		return nil, false
	}
	if t.Foreign() && versionOf(stored) != t.Version {
		text, err := t.converted(ctx, [][]byte{stored})[0].wait(ctx)
		if err != nil {
			return nil, false
		}
		stored = text // this text is already pruned
	} else if whole, _ := t.Whole(t.Version, stored); !whole {
		return nil, false
	}
	return t.AppendWritten(make([]byte, 0, len(stored)+len(versionMember)+len(resourceVersion)), stored, resourceVersion)
}

// AppendWritten appends the body of an object that was just encoded in the form in which it is shown, so that it need
// not be checked. If ok is false, nothing is appended.
func (t *trees) AppendWritten(b, stored, resourceVersion []byte) (body []byte, ok bool) {
	rest, ok := bytes.CutPrefix(stored, t.head)
	if !ok {
		return b, false
	}
	body, ok = splice(b, bytes.TrimSuffix(rest, newline), resourceVersion)
	if !ok {
		return b, false
	}
	return body, true
}

// versionMember is what is written with a resource version.
const versionMember = `,"resourceVersion":""`

var metadataHead = []byte(`"metadata":{`)

// splice appends a body with a resource version in the metadata, which come first, at the place where an encoder would
// write it.
func splice(body, rest, resourceVersion []byte) (_ []byte, ok bool) {
	if !bytes.HasPrefix(rest, metadataHead) {
		return nil, false
	}
	const name = `"resourceVersion"`
	s := jsontext.Scanner[[]byte]{Text: rest, At: len(metadataHead)}
	at := s.At
	for s.Space() == '"' {
		at = s.At
		if n := s.Skip(); string(n) >= name {
			ok = string(n) != name
			break
		}
		s.At++ // skips the colon
		s.Skip()
		at = s.At
		if s.Space() != ',' {
			break
		}
		s.At++
	}
	body = append(body, rest[:at]...)
	if !ok { // it becomes the last member
		if at >= len(rest) || rest[at] != '}' {
			return nil, false
		}
		body = append(append(append(append(body, `,"resourceVersion":"`...), resourceVersion...), '"'), rest[at:]...)
		return body, at > len(metadataHead)
	}
	body = append(append(append(body, `"resourceVersion":"`...), resourceVersion...), `",`...)
	return append(body, rest[at:]...), true
}
