// Package cause says what is kept beside each change of an object: who made it, with which program, by what kind of
// request. It is kept in the log, and not in the object.
package cause

import (
	"context"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millrace/millrace/internal/server/resource"
)

// Cause is what made a change. What is not known is empty.
type Cause struct {
	// User is who asked for it.
	User string
	// Program is the first part of the user agent: its name, and its version.
	Program string
	// Verb is that of the request, such as patch.
	Verb string
}

// The numbers of the fields. They are in the logs of clusters: a number is never used for something else.
const (
	userField protowire.Number = iota + 1
	programField
	verbField
)

// Of returns the cause of a change that is made in a context, as it is kept; nil if nothing is known.
func Of(ctx context.Context) []byte {
	c := resource.CallFrom(ctx)
	return Cause{User: c.User, Program: c.Program, Verb: c.Verb}.Append(nil)
}

// Append appends a cause as it is kept.
func (c Cause) Append(b []byte) []byte {
	for _, f := range []struct {
		number protowire.Number
		text   string
	}{{userField, c.User}, {programField, c.Program}, {verbField, c.Verb}} {
		if f.text != "" {
			b = protowire.AppendTag(b, f.number, protowire.BytesType)
			b = protowire.AppendString(b, f.text)
		}
	}
	return b
}

// Read reads what Append wrote. Of what it does not understand it takes nothing.
func Read(b []byte) (c Cause) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return c
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return c
		}
		if text, ok := protowire.ConsumeString(b); kind == protowire.BytesType && ok >= 0 {
			c.set(number, text)
		}
		b = b[n:]
	}
	return c
}

func (c *Cause) set(number protowire.Number, text string) {
	switch number {
	case userField:
		c.User = text
	case programField:
		c.Program = text
	case verbField:
		c.Verb = text
	}
}
