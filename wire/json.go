package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/store"
	"github.com/millrace/millrace/wire/internal/transcode"
)

// makeJSON makes the JSON form of stored bytes: 11 µs for a pod of 6 KB where decoding and encoding takes 50.
func makeJSON(k *resource.Kind, stored []byte, rev store.Revision) ([]byte, error) {
	if form, ok := transcoded(k, stored, rev); ok {
		return form, nil
	}
	o, err := k.Codec.Decode(stored, version(rev))
	if err != nil {
		return nil, err
	}
	return BodyJSON(o)
}

// StoredJSON is the JSON form of an entry. The object that it holds is at hand, for the case that the bytes do not do.
func StoredJSON(k *resource.Kind, e store.Entry, o resource.Object) ([]byte, error) {
	if form, ok := transcoded(k, e.Value, e.Revision); ok {
		return form, nil
	}
	return BodyJSON(o)
}

// BodyJSON is the JSON form of an object that is at hand.
func BodyJSON(o resource.Object) ([]byte, error) {
	kind := o.GetObjectKind()
	gvk := kind.GroupVersionKind()
	kind.SetGroupVersionKind(schema.GroupVersionKind{})
	b, err := json.Marshal(o)
	kind.SetGroupVersionKind(gvk)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	return bytes.TrimPrefix(b, brace), nil
}

var brace = []byte("{")

// version is a revision as objects carry it. What has not been stored (in a dry run) has none.
func version(rev store.Revision) string {
	if rev == 0 {
		return ""
	}
	return rev.String()
}

// plans hold, by the kind's Go type, how its messages become JSON: a *transcode.Plan, nil where there is no such way. They
// are made when they are first needed: most clusters use few of the kinds.
var plans sync.Map

func planFor(t reflect.Type) *transcode.Plan {
	if p, ok := plans.Load(t); ok {
		return p.(*transcode.Plan)
	}
	plan, err := transcode.Compile(t)
	if err != nil {
		plan = nil
	}
	p, _ := plans.LoadOrStore(t, plan)
	return p.(*transcode.Plan)
}

// transcoded makes the JSON form without decoding, if that is possible.
func transcoded(k *resource.Kind, stored []byte, rev store.Revision) ([]byte, bool) {
	if k.Restores || !bytes.HasPrefix(stored, resource.ProtoMagic) {
		return nil, false
	}
	return planned(planFor(k.GoType()), stored, rev)
}

func planned(plan *transcode.Plan, stored []byte, rev store.Revision) ([]byte, bool) {
	message, err := resource.MessageOf(stored)
	if plan == nil || err != nil {
		return nil, false
	}
	var digits [20]byte
	version := digits[:0]
	if rev != 0 {
		version = strconv.AppendInt(version, int64(rev), 10)
	}
	text, ok := plan.JSON(message, version)
	return bytes.TrimPrefix(text, brace), ok
}
