package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/server/resource"
)

// Foreign reports whether objects may need conversion by a webhook.
func (t *trees) Foreign() bool { return t.Converted != nil }

// Prepare converts the objects that are stored in other versions, together. Decode finds the results.
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

// StoredInVersion reads the version that Attributes has put after the fields.
func (t *trees) StoredInVersion(fields []string) bool {
	return len(fields) > len(t.paths) && fields[len(t.paths)] == t.Version
}

// VersionAttributes reads the attributes of objects of other versions from what they are converted to.
func (t *trees) VersionAttributes(ctx context.Context, stored [][]byte) []resource.VersionAttributes {
	out := make([]resource.VersionAttributes, len(stored))
	others := map[string][]int{}
	for i, s := range stored {
		if v := versionOf(s); v != t.Version {
			others[v] = append(others[v], i)
		} else {
			out[i].Attributes = attributesOf(s, t.paths)
		}
	}
	for _, places := range others {
		in := make([][]byte, len(places))
		for i, at := range places {
			in[i] = stored[at]
		}
		for i, k := range t.converted(ctx, in) {
			if text, err := k.wait(ctx); err != nil {
				out[places[i]].Err = err
			} else {
				out[places[i]].Attributes = attributesOf(text, t.paths)
			}
		}
	}
	return out
}

// convertOnce sets the objects at some places, and uses conversions that were made before.
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
		u, err := Read(text)
		if err != nil {
			return fmt.Errorf("read what was converted to %s: %w", t.apiVersion(t.Version), err)
		}
		all[places[i]] = u
	}
	return nil
}

// converted returns stored objects of one version in our version. It starts the conversions that no other caller has
// started.
func (t *trees) converted(ctx context.Context, stored [][]byte) []*converted {
	keys := make([]convertedKey, len(stored))
	for i, s := range stored {
		keys[i] = convertedKey{t.Identity, t.Edition, sha256.Sum256(s)}
	}
	all, mine := t.Converted.claim(keys)
	if len(mine) == 0 {
		return all
	}
	// Other callers may wait for the conversions that this caller has started, so they go on even if its context ends.
	// The converter bounds their duration.
	t.convertMine(context.WithoutCancel(ctx), stored, all, mine)
	return all
}

var errNotConverted = errors.New("the object was not converted")

// convertMine converts the claimed objects, and finishes each of them in any case.
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
		wrong := t.pruned(made[i], t.Version)
		var text []byte
		if wrong == nil {
			text, wrong = Append(nil, made[i].Object)
		}
		t.Converted.finish(e, text, wrong)
	}
}

// versionOf returns the apiVersion in stored bytes. It is mostly at the beginning, because encoders sort names.
func versionOf(stored []byte) string {
	text, found := bytes.CutPrefix(stored, []byte(`{"apiVersion":`))
	if !found {
		text = jsontext.Member(stored, "apiVersion")
	}
	s := jsontext.Scanner[[]byte]{Text: text}
	api, _ := unquote(s.Skip())
	return api[strings.LastIndexByte(api, '/')+1:]
}
