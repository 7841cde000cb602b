package cause

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millrace/millrace/internal/server/resource"
)

func TestACauseIsReadAsItWasWritten(t *testing.T) {
	for _, c := range []Cause{{}, {User: "alice"}, {User: "alice", Program: "kubectl/v1.37.2", Verb: "patch"}} {
		if got := Read(c.Append(nil)); got != c {
			t.Errorf("%+v became %+v", c, got)
		}
	}
}

func TestWhatALaterVersionAddsIsPassedOver(t *testing.T) {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 40, protowire.VarintType), 7)
	b = Cause{User: "alice"}.Append(b)
	b = protowire.AppendString(protowire.AppendTag(b, 41, protowire.BytesType), "later")
	if got := Read(b); got != (Cause{User: "alice"}) {
		t.Errorf("it became %+v", got)
	}
}

func TestTheCauseIsTheCallThatAContextHas(t *testing.T) {
	ctx := resource.WithCall(t.Context(), resource.Call{User: "bob", Program: "helm/4.0", Verb: "create"})
	if got := Read(Of(ctx)); got != (Cause{"bob", "helm/4.0", "create"}) {
		t.Errorf("it is %+v", got)
	}
	if b := Of(t.Context()); b != nil {
		t.Errorf("nobody made %q", b)
	}
}

func FuzzReadingCauses(f *testing.F) {
	f.Add(Cause{User: "alice", Program: "kubectl", Verb: "patch"}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Read(b)
		if again := Read(c.Append(nil)); again != c {
			t.Errorf("%+v became %+v", c, again)
		}
	})
}
