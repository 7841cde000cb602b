// Package history has the commands about the past of a cluster: `millrace history`, `at` and `undo`.
package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/cmd/millrace/internal/compare"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/internal/server/apiserver"
)

// version is a change of an object, as the server tells it.
type version = apiserver.Change

// options are the flags of `millrace history`.
type options struct {
	output string
	limit  int
	follow bool
	color  string
}

// Command is `millrace history`.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "history TYPE/NAME", Args: cobra.RangeArgs(1, 2),
		Short: "Show the versions of an object: when, who, with which program, and what changed",
		Long: "Show the versions of an object that the server keeps: when each was made, by whom, with which program, and which\n" +
			"fields changed. The oldest comes first.",
		Example: "  millrace history deployment/web\n  millrace history pod web-7c9 -n shop --follow\n  millrace history configmap/settings -o patch",
	}
	cluster := newFlags(c)
	c.Flags().StringVarP(&o.output, "output", "o", "", "yaml or json: whole versions; patch: what changed, as JSON merge patches; wide: all fields, also those that change with each write")
	c.Flags().IntVar(&o.limit, "limit", 20, "how many versions to show, the newest ones (1 to 1000)")
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with the versions that come, until Ctrl-C")
	c.Flags().StringVar(&o.color, "color", "auto", "auto, always or never")
	c.RunE = flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		if err := o.check(); err != nil {
			return err
		}
		t, err := find(cluster, c.Flags().Args())
		if err != nil {
			return err
		}
		p := &printer{out: c.OutOrStdout(), options: o, colored: o.colored(c.OutOrStdout())}
		return t.show(ctx, p)
	})
	return c
}

func (o *options) check() error {
	switch {
	case !slices.Contains([]string{"", "yaml", "json", "patch", "wide"}, o.output):
		return fmt.Errorf("--output %q is none of yaml, json, patch and wide", o.output)
	case o.limit < 1 || o.limit > 1000:
		return fmt.Errorf("--limit %d is not from 1 to 1000", o.limit)
	case !slices.Contains([]string{"auto", "always", "never"}, o.color):
		return fmt.Errorf("--color %q is none of auto, always and never", o.color)
	}
	return nil
}

// colored reports whether to write in colours: on a terminal, unless somebody does not want them.
func (o *options) colored(w io.Writer) bool {
	f, ok := w.(*os.File)
	terminal := ok && isatty.IsTerminal(f.Fd()) && os.Getenv("NO_COLOR") == ""
	return o.color == "always" || o.color == "auto" && terminal
}

// show prints the versions, and those that come if that is wanted.
func (t *target) show(ctx context.Context, p *printer) error {
	all, err := t.versions(ctx, url.Values{"limit": {strconv.Itoa(p.limit + 1)}})
	if err != nil {
		return err
	}
	if len(all) == 0 && !p.follow {
		return fmt.Errorf("nothing is kept of %s", t.title)
	}
	if len(all) > p.limit { // the first is only there to be compared with
		p.before, all = all[0].Object, all[1:]
	}
	last, err := p.print(all)
	if err != nil || !p.follow {
		return err
	}
	return t.wait(ctx, func() error {
		all, err := t.versions(ctx, url.Values{"after": {last}, "limit": {"1000"}})
		if err == nil && len(all) > 0 {
			last, err = p.print(all)
		}
		return err
	})
}

func (t *target) versions(ctx context.Context, query url.Values) ([]version, error) {
	var list apiserver.ChangeList
	err := t.get(ctx, "/history"+t.path, query, &list)
	return list.Items, err
}

// wait calls look now, and whenever the object may have changed, until ctx ends.
func (t *target) wait(ctx context.Context, look func() error) error {
	for ctx.Err() == nil {
		if err := look(); err != nil {
			return err
		}
		w, err := t.live.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", t.name).String()})
		if err != nil {
			return err
		}
		err = eachEvent(w, look)
		w.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

func eachEvent(w watch.Interface, look func() error) error {
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return nil // begin again
		}
		if err := look(); err != nil {
			return err
		}
	}
	return nil
}

// printer prints versions.
type printer struct {
	options
	out     io.Writer
	colored bool
	before  json.RawMessage // the version before the next one
	most    int             // how many differences are shown; zero: all
}

// print prints versions and returns the revision of the last.
func (p *printer) print(all []version) (last string, err error) {
	for _, v := range all {
		if err := p.version(&v); err != nil {
			return last, err
		}
		p.before, last = v.Object, v.Revision
	}
	return last, nil
}

func (p *printer) version(v *version) error {
	switch p.output {
	case "json":
		b, err := json.MarshalIndent(v, "", "  ")
		return p.line(string(b), err)
	case "yaml":
		b, err := yaml.Marshal(v)
		return p.line("---\n"+string(b), err)
	case "patch":
		return p.patch(v)
	}
	return p.changes(v)
}

func (p *printer) line(text string, err error) error {
	if err == nil {
		_, err = fmt.Fprintln(p.out, text)
	}
	return err
}

// patch prints what changed as a JSON merge patch.
func (p *printer) patch(v *version) error {
	if v.Object == nil || p.before == nil {
		return p.line(string(v.Object), nil)
	}
	b, err := jsonpatch.CreateMergePatch(p.before, v.Object)
	return p.line(string(b), err)
}

// changes prints who made a version, and what changed.
func (p *printer) changes(v *version) error {
	by := cmp.Or(compare.Printable(v.User), "unknown")
	age := duration.HumanDuration(time.Since(v.Time))
	head := fmt.Sprintf("%s  %s (%s ago)  %s  %s %s", v.Revision, v.Time.Local().Format(time.DateTime), age, by, compare.Printable(v.Program), v.Verb)
	if err := p.line(p.paint(bold, head), nil); err != nil {
		return err
	}
	switch {
	case v.Type == "DELETED":
		return p.line(p.paint(red, "    deleted"), nil)
	case v.Unreadable != "":
		return p.line("    "+compare.Printable(v.Unreadable), nil)
	case v.Type == "ADDED":
		return p.line(p.paint(green, "    created"), nil)
	case p.before == nil:
		return p.line("    (what was before is not kept)", nil)
	}
	return p.differences(p.before, v.Object)
}

func (p *printer) differences(before, now json.RawMessage) error {
	var old, new map[string]any
	if err := errors.Join(json.Unmarshal(before, &old), json.Unmarshal(now, &new)); err != nil {
		return err
	}
	if p.output != "wide" {
		old, new = compare.Essential(old), compare.Essential(new)
	}
	all := compare.Differences(old, new)
	shown := all
	if p.most > 0 && p.output != "wide" {
		shown = all[:min(p.most, len(all))]
	}
	for _, d := range shown {
		if err := p.line("    "+p.paint(colorOf(d), compare.Printable(d.String())), nil); err != nil {
			return err
		}
	}
	if more := len(all) - len(shown); more > 0 {
		return p.line(fmt.Sprintf("    … and %d more fields (-o wide shows them)", more), nil)
	}
	return nil
}

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func colorOf(d compare.Difference) string {
	switch {
	case d.Old == nil:
		return green
	case d.New == nil:
		return red
	}
	return yellow
}

func (p *printer) paint(color, text string) string {
	if !p.colored {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
