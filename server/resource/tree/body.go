package tree

import (
	"bytes"
	"context"
)

// Body returns the JSON of a stored object after its kind and version, with a resource version, without decoding the object. If ok is false, the
// object has to be decoded, because it may have to be shown differently.
func (t *trees) Body(ctx context.Context, stored, resourceVersion []byte) (body []byte, ok bool) {
	if t.Whole == nil {
		return nil, false
	}
	if t.Foreign() && versionOf(stored) != t.Version {
		text, err := t.converted(ctx, [][]byte{stored})[0].wait(ctx)
		if err != nil {
			return nil, false
		}
		stored = text // this text is already refined
	} else if !t.Whole(t.Version, stored) {
		return nil, false
	}
	return t.Written(stored, resourceVersion)
}

// Written returns the body of an object that was just encoded in the form in which it is shown, so that it need not be checked.
func (t *trees) Written(stored, resourceVersion []byte) (body []byte, ok bool) {
	rest, ok := bytes.CutPrefix(stored, t.head)
	if !ok {
		return nil, false
	}
	return splice(bytes.TrimSuffix(rest, []byte("\n")), resourceVersion)
}

var metadataHead = []byte(`"metadata":{`)

// splice inserts a resource version into the metadata, which come first, at the place where an encoder would write it.
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
		s.at++ // skips the colon
		s.skip()
		at = s.at
		if s.space() != ',' {
			break
		}
		s.at++
	}
	body = make([]byte, 0, len(rest)+len(name)+len(resourceVersion)+len(`:"",`))
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
