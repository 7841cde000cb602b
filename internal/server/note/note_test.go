package note

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millrace/millrace/internal/server/resource"
)

func TestANoteIsReadAsItWasWritten(t *testing.T) {
	for _, c := range []Note{{}, {User: "alice"}, {User: "alice", Program: "kubectl/v1.37.2", Verb: "patch", Cause: "loop=x"}} {
		if got := Read(c.Append(nil)); got != c {
			t.Errorf("%+v became %+v", c, got)
		}
	}
}

func TestWhatALaterVersionAddsIsPassedOver(t *testing.T) {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 40, protowire.VarintType), 7)
	b = Note{User: "alice"}.Append(b)
	b = protowire.AppendString(protowire.AppendTag(b, 41, protowire.BytesType), "later")
	if got := Read(b); got != (Note{User: "alice"}) {
		t.Errorf("it became %+v", got)
	}
}

func TestTheNoteIsTheCallThatAContextHas(t *testing.T) {
	ctx := resource.WithCall(t.Context(), resource.Call{User: "bob", Program: "helm/4.0", Verb: "create", Cause: "loop=a"})
	if got := Read(Of(ctx)); got != (Note{"bob", "helm/4.0", "create", "loop=a"}) {
		t.Errorf("it is %+v", got)
	}
	if b := Of(t.Context()); b != nil {
		t.Errorf("nobody made %q", b)
	}
}

func FuzzReadingNotes(f *testing.F) {
	f.Add(Note{User: "alice", Program: "kubectl", Verb: "patch"}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Read(b)
		if again := Read(c.Append(nil)); again != c {
			t.Errorf("%+v became %+v", c, again)
		}
	})
}
