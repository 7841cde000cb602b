package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/millrace/millrace/cmd/millrace/internal/compare"
)

// changeOf returns the revision at which a field was changed last.
func (t *target) changeOf(ctx context.Context, o *whyOptions) (string, error) {
	all, err := t.kept(ctx, o.at)
	if err != nil {
		return "", err
	}
	wanted := "." + strings.TrimPrefix(o.field, ".")
	found := ""
	err = eachDifference(all, func(v *version, d compare.Difference) {
		if d.Path == wanted || below(d.Path, wanted) || below(wanted, d.Path) {
			found = v.Revision
		}
	})
	if err == nil && found == "" {
		err = fmt.Errorf("no change of %s is kept of %s", o.field, t.title)
	}
	return found, err
}

// below reports whether a path leads to something below another.
func below(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// kept returns the versions that are kept, up to a revision, or up to now.
func (t *target) kept(ctx context.Context, at string) ([]version, error) {
	query := url.Values{"limit": {"1000"}}
	if at != "" {
		query.Set("before", next(at))
	}
	all, err := t.versions(ctx, query)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("nothing is kept of %s", t.title)
	}
	return all, err
}

// next returns the revision after another.
func next(revision string) string {
	var n uint64
	_, _ = fmt.Sscan(revision, &n)
	return fmt.Sprint(n + 1)
}

// eachDifference visits the fields that each version has differently from the one before. Those of the first version
// count if it was created then.
func eachDifference(all []version, visit func(*version, compare.Difference)) error {
	var before map[string]any
	for i := range all {
		v := &all[i]
		var now map[string]any
		if v.Object != nil {
			if err := json.Unmarshal(v.Object, &now); err != nil {
				return err
			}
		}
		now = compare.Essential(now)
		switch {
		case v.Type == "ADDED":
			eachLeaf("", now, func(path string, value any) { visit(v, compare.Difference{Path: path, New: value}) })
		case before != nil && v.Object != nil:
			for _, d := range compare.Differences(before, now) {
				visit(v, d)
			}
		}
		if before = now; v.Object == nil {
			before = nil
		}
	}
	return nil
}

// eachLeaf visits the values of an object that are no objects themselves.
func eachLeaf(path string, value any, visit func(path string, value any)) {
	for _, d := range differencesOf(value) {
		if o, ok := d.New.(map[string]any); ok && len(o) > 0 {
			eachLeaf(path+d.Path, o, visit)
			continue
		}
		visit(path+d.Path, d.New)
	}
}

// differencesOf returns the fields of an object as differences from nothing.
func differencesOf(value any) []compare.Difference {
	o, _ := value.(map[string]any)
	return compare.Differences(map[string]any{}, o)
}

// blame prints each field of an object with the change that gave it its value.
func (t *target) blame(ctx context.Context, o *whyOptions, p *printer) error {
	all, err := t.kept(ctx, o.at)
	if err != nil {
		return err
	}
	last := &all[len(all)-1]
	if last.Object == nil {
		return errors.New(t.title + " does not exist")
	}
	by := map[string]*version{}
	if err := eachDifference(all, func(v *version, d compare.Difference) { by[d.Path] = v }); err != nil {
		return err
	}
	var object map[string]any
	if err := json.Unmarshal(last.Object, &object); err != nil {
		return err
	}
	var failed error
	eachLeaf("", compare.Essential(object), func(path string, value any) {
		failed = errors.Join(failed, p.blamed(path, value, setBy(by, path)))
	})
	return failed
}

// setBy returns the last change of a field, of what is below it, or of what it is in.
func setBy(by map[string]*version, path string) (last *version) {
	for at, v := range by {
		if (at == path || below(at, path) || below(path, at)) && (last == nil || v.Time.After(last.Time)) {
			last = v
		}
	}
	return last
}

func (p *printer) blamed(path string, value any, v *version) error {
	who := "before what is kept"
	if v != nil {
		who = fmt.Sprintf("%s  %s  %s", v.Revision, v.Time.Local().Format(time.DateTime), compare.Printable(actor(v)))
		if v.Cause != nil && len(v.Cause.Changes) > 0 {
			who += "  because of " + compare.Printable(origins(v))
		}
	}
	return p.line(fmt.Sprintf("%s: %s\n    %s", compare.Printable(strings.TrimPrefix(path, ".")), compare.Printable(shortened(compare.Text(value))), p.paint(yellow, who)), nil)
}

// origins names the change that woke the loop, and how many others did.
func origins(v *version) string {
	o := v.Cause.Changes[0]
	what := "revision " + o.Revision
	if o.Name != "" {
		resource, _, _ := strings.Cut(o.Resource, ".")
		what = fmt.Sprintf("%s/%s at %s", resource, o.Name, o.Revision)
	}
	if v.Cause.Count > 1 {
		what += fmt.Sprintf(" and %d more", v.Cause.Count-1)
	}
	return what
}

const longestValue = 80

func shortened(text string) string {
	if r := []rune(text); len(r) > longestValue {
		return string(r[:longestValue]) + "…"
	}
	return text
}
