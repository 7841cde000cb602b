package tree

import (
	"bytes"
	"context"
)

// Body is the JSON of a stored object behind its kind and version, under a resource version, made without reading the object. ok is
// false where the object has to be read: what is in it may not be what it shall be shown as.
func (t *trees) Body(ctx context.Context, stored, resourceVersion []byte) (body []byte, ok bool) {
	if t.Whole == nil {
		return nil, false
	}
	if t.Foreign() && versionOf(stored) != t.Version {
		text, err := t.converted(ctx, [][]byte{stored})[0].wait(ctx)
		if err != nil {
			return nil, false
		}
		stored = text // which has been refined
	} else if !t.Whole(t.Version, stored) {
		return nil, false
	}
	rest, ok := bytes.CutPrefix(stored, t.head)
	if !ok {
		return nil, false
	}
	return splice(bytes.TrimSuffix(rest, []byte("\n")), resourceVersion)
}

var metadataHead = []byte(`"metadata":{`)

// splice puts a resource version into the metadata, which come first, where an encoder would write it.
func splice(rest, resourceVersion []byte) (body []byte, ok bool) {
	if !bytes.HasPrefix(rest, metadataHead) {
		return nil, false
	}
	const name = `"resourceVersion"`
	s := scanner{text: rest, at: len(metadataHead)}
	at := s.at
	for s.space() == '"' {
		at = s.at
		if n := s.skip(); string(n) >= name {
			ok = string(n) != name
			break
		}
		s.at++ // the colon
		s.skip()
		at = s.at
		if s.space() != ',' {
			break
		}
		s.at++
	}
	body = make([]byte, 0, len(rest)+len(name)+len(resourceVersion)+len(`:"",`))
	body = append(body, rest[:at]...)
	if !ok { // it comes last
		if at >= len(rest) || rest[at] != '}' {
			return nil, false
		}
		body = append(append(append(append(body, `,"resourceVersion":"`...), resourceVersion...), '"'), rest[at:]...)
		return body, at > len(metadataHead)
	}
	body = append(append(append(body, `"resourceVersion":"`...), resourceVersion...), `",`...)
	return append(body, rest[at:]...), true
}
