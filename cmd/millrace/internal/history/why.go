package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/compare"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/internal/server/apiserver"
)

// whyOptions are the flags of `millrace why`.
type whyOptions struct {
	options
	field, at string
	blame     bool
}

// WhyCommand is `millrace why`.
func WhyCommand() *cobra.Command {
	var o whyOptions
	c := &cobra.Command{
		Use: "why TYPE/NAME", Args: cobra.RangeArgs(1, 2),
		Short: "Show why an object is as it is: the chain of causes of its last change",
		Long: "Show why an object was changed last: who or what began it, and each step from there to the object, with the time\n" +
			"between them. The oldest step comes first. With --field the last change of that field is explained, and with\n" +
			"--blame every field is listed with who set it last, when, and because of what.",
		Example: "  millrace why pod/web-7c9-x2k\n  millrace why pod web-7c9-x2k --field spec.nodeName\n  millrace why deployment/web --at 10m\n  millrace why deployment/web --blame",
	}
	cluster := newFlags(c)
	c.Flags().StringVar(&o.field, "field", "", "explain the last change of this field, such as spec.replicas, or of what is below it")
	c.Flags().StringVar(&o.at, "at", "", "explain the object as it was: a revision, a time, or how long ago (10m)")
	c.Flags().BoolVar(&o.blame, "blame", false, "list each field with who set it last, when, and why")
	c.Flags().BoolVarP(&o.follow, "watch", "w", false, "go on with the changes that come, until Ctrl-C")
	c.Flags().StringVarP(&o.output, "output", "o", "", "json: what the server says; wide: all fields, also those that change with each write")
	c.Flags().StringVar(&o.color, "color", "auto", "auto, always or never")
	o.limit = 1
	c.MarkFlagsMutuallyExclusive("field", "blame", "watch")
	c.MarkFlagsMutuallyExclusive("at", "watch")
	c.RunE = flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		if err := o.options.check(); err != nil {
			return err
		}
		t, err := find(cluster, c.Flags().Args())
		if err != nil {
			return err
		}
		if o.at != "" {
			m, err := findMoment(ctx, cluster, o.at)
			if err != nil {
				return err
			}
			o.at = m.revision
		}
		return t.why(ctx, &o, &printer{out: c.OutOrStdout(), options: o.options, colored: o.colored(c.OutOrStdout())})
	})
	return c
}

// why prints what the options ask for.
func (t *target) why(ctx context.Context, o *whyOptions, p *printer) error {
	switch {
	case o.blame:
		return t.blame(ctx, o, p)
	case o.field != "":
		at, err := t.changeOf(ctx, o)
		if err != nil {
			return err
		}
		return t.chain(ctx, at, p)
	case !o.follow:
		return t.chain(ctx, o.at, p)
	}
	last := ""
	return t.wait(ctx, func() error {
		all, err := t.versions(ctx, url.Values{"after": {last}, "limit": {"1000"}})
		if err != nil || len(all) == 0 {
			return err
		}
		if last == "" {
			all = all[len(all)-1:]
		}
		for _, v := range all {
			if last = v.Revision; p.output == "" {
				_ = p.line("", nil)
			}
			if err := t.chain(ctx, last, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// chain prints why the change at a revision was made, or the newest one.
func (t *target) chain(ctx context.Context, at string, p *printer) error {
	query := url.Values{}
	if at != "" {
		query.Set("at", at)
	}
	if p.output == "json" {
		var raw json.RawMessage
		if err := t.get(ctx, "/why"+t.path, query, &raw); err != nil {
			return err
		}
		return p.line(strings.TrimSpace(string(raw)), nil)
	}
	var chain apiserver.CauseChain
	if err := t.get(ctx, "/why"+t.path, query, &chain); err != nil {
		return err
	}
	slices.Reverse(chain.Items)
	if chain.Ends != "" {
		if err := p.line("… "+compare.Printable(chain.Ends), nil); err != nil {
			return err
		}
	}
	var before *apiserver.Hop
	for i := range chain.Items {
		if err := p.hop(&chain.Items[i], before); err != nil {
			return err
		}
		before = &chain.Items[i]
	}
	return nil
}

// hop prints one step of a chain.
func (p *printer) hop(h, before *apiserver.Hop) error {
	when := h.Time.Local().Format("2006-01-02 15:04:05.000")
	if before != nil {
		when = fmt.Sprintf("%23s", "+"+delay(h.Time.Sub(before.Time)))
	}
	if h.Hidden {
		return p.line(fmt.Sprintf("%s  revision %s, of something that you may not read", when, h.Revision), nil)
	}
	head := fmt.Sprintf("%s  %s %s %s", when, p.paint(bold, compare.Printable(actor(&h.Change))), did(&h.Change), compare.Printable(named(&h.Change)))
	if how := howOf(h.Cause); how != "" {
		head += "  (" + how + ")"
	}
	if err := p.line(head, nil); err != nil {
		return err
	}
	if h.Cause != nil && h.Cause.Decision != "" {
		if err := p.line("    "+compare.Printable(h.Cause.Decision), nil); err != nil {
			return err
		}
	}
	if h.Type != "MODIFIED" || h.Previous == nil || h.Object == nil {
		return nil
	}
	few := *p
	few.most = mostFields
	return few.differences(h.Previous, h.Object)
}

// mostFields is how many changed fields of a step are shown.
const mostFields = 4

// delay writes a time between two steps.
func delay(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// actor names who made a change: a loop, or a user and what he used.
func actor(v *version) string {
	if v.Cause != nil && v.Cause.Loop != "" {
		return v.Cause.Loop
	}
	user := cmp.Or(v.User, "unknown")
	program, _, _ := strings.Cut(v.Program, "/")
	if program == "" {
		return user
	}
	return user + " with " + program
}

// did says what a change was.
func did(v *version) string {
	switch v.Type {
	case "ADDED":
		return "created"
	case "DELETED":
		return "deleted"
	}
	return "changed"
}

func named(v *version) string {
	resource, _, _ := strings.Cut(v.Resource, ".")
	if v.Namespace == "" {
		return resource + "/" + v.Name
	}
	return resource + "/" + v.Name + " in " + v.Namespace
}

// howOf says what woke a loop, beside the change that is shown.
func howOf(c *apiserver.Cause) string {
	if c == nil {
		return ""
	}
	var all []string
	if c.Count > 1 {
		all = append(all, fmt.Sprintf("after %d changes", c.Count))
	}
	if c.Timer {
		all = append(all, "when a time had come")
	}
	if c.Retry {
		all = append(all, "tried again")
	}
	return strings.Join(all, ", ")
}
