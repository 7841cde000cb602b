// Package note says what is kept beside each change of an object: who made it, with which program, by what kind of
// request, and why. It is kept in the log, and not in the object.
package note

import (
	"context"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millrace/millrace/internal/server/resource"
)

// Note is what made a change. What is not known is empty.
type Note struct {
	// User is who asked for it.
	User string
	// Program is the first part of the user agent: its name, and its version.
	Program string
	// Verb is that of the request, such as patch.
	Verb string
	// Cause is what the client says of why it acts: the text of a cause.Cause, if it is one.
	Cause string
}

// The numbers of the fields. They are in the logs of clusters: a number is never used for something else.
const (
	userField protowire.Number = iota + 1
	programField
	verbField
	causeField
)

// Of returns the note of a change that is made in a context, as it is kept; nil if nothing is known.
func Of(ctx context.Context) []byte {
	c := resource.CallFrom(ctx)
	return Note{User: c.User, Program: c.Program, Verb: c.Verb, Cause: c.Cause}.Append(nil)
}

// Append appends a note as it is kept.
func (n Note) Append(b []byte) []byte {
	for _, f := range []struct {
		number protowire.Number
		text   string
	}{{userField, n.User}, {programField, n.Program}, {verbField, n.Verb}, {causeField, n.Cause}} {
		if f.text != "" {
			b = protowire.AppendTag(b, f.number, protowire.BytesType)
			b = protowire.AppendString(b, f.text)
		}
	}
	return b
}

// Read reads what Append wrote. Of what it does not understand it takes nothing.
func Read(b []byte) (n Note) {
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return n
		}
		b = b[size:]
		if size = protowire.ConsumeFieldValue(number, kind, b); size < 0 {
			return n
		}
		if text, ok := protowire.ConsumeString(b); kind == protowire.BytesType && ok >= 0 {
			n.set(number, text)
		}
		b = b[size:]
	}
	return n
}

func (n *Note) set(number protowire.Number, text string) {
	switch number {
	case userField:
		n.User = text
	case programField:
		n.Program = text
	case verbField:
		n.Verb = text
	case causeField:
		n.Cause = text
	}
}
