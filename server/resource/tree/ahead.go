package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/server/resource"
)

// Foreign tells that objects may have to be converted by somebody else.
func (t *trees) Foreign() bool { return t.Converted != nil }

// Prepare has the objects converted that are stored in other versions, in one go. Decode finds them.
func (t *trees) Prepare(ctx context.Context, stored [][]byte) error {
	if !t.Foreign() {
		return nil
	}
	others := map[string][][]byte{}
	for _, s := range stored {
		if v := versionOf(s); v != t.Version {
			others[v] = append(others[v], s)
		}
	}
	for _, some := range others {
		for _, k := range t.converted(ctx, some) {
			if _, err := k.wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// convertOnce puts objects at some places that may have been converted before.
func (t *trees) convertOnce(ctx context.Context, stored []resource.Stored, all []resource.Object, places []int) error {
	in := make([][]byte, len(places))
	for i, at := range places {
		in[i] = stored[at].Bytes
	}
	for i, k := range t.converted(ctx, in) {
		text, err := k.wait(ctx)
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(text); err != nil {
			return fmt.Errorf("read what was converted to %s: %w", t.apiVersion(t.Version), err)
		}
		all[places[i]] = u
	}
	return nil
}

// converted finds stored objects of one version in ours, and has those converted that nobody has begun to convert.
func (t *trees) converted(ctx context.Context, stored [][]byte) []*converted {
	keys := make([]convertedKey, len(stored))
	for i, s := range stored {
		keys[i] = convertedKey{t.Identity, t.Edition, sha256.Sum256(s)}
	}
	all, mine := t.Converted.claim(keys)
	if len(mine) == 0 {
		return all
	}
	// Others may wait for what this caller has begun, so it goes on even if the caller has left. The converter bounds how long.
	t.convertMine(context.WithoutCancel(ctx), stored, all, mine)
	return all
}

var errNotConverted = errors.New("the object was not converted")

// convertMine converts the claimed objects, and finishes each of them whatever happens.
func (t *trees) convertMine(ctx context.Context, stored [][]byte, all []*converted, mine []int) {
	var in []*unstructured.Unstructured
	var from []*converted
	for _, at := range mine {
		u, _, err := t.read(stored[at])
		if err != nil {
			t.Converted.finish(all[at], nil, err)
			continue
		}
		in, from = append(in, u), append(from, all[at])
	}
	made, err := t.Convert.Convert(ctx, in, t.Version)
	if err == nil {
		err = errNotConverted
	}
	for i, e := range from {
		if i >= len(made) || made[i] == nil {
			t.Converted.finish(e, nil, err)
			continue
		}
		wrong := t.refined(made[i])
		var text []byte
		if wrong == nil {
			text, wrong = json.Marshal(made[i].Object)
		}
		t.Converted.finish(e, text, wrong)
	}
}

// versionOf is the version that stored bytes have. Encoders sort names, so it mostly stands in front.
func versionOf(stored []byte) string {
	text, found := bytes.CutPrefix(stored, []byte(`{"apiVersion":`))
	if !found {
		text = member(stored, "apiVersion")
	}
	s := scanner{text: text}
	api, _ := unquote(s.skip())
	return api[strings.LastIndexByte(api, '/')+1:]
}
