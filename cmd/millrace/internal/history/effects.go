package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/cmd/millrace/internal/compare"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/internal/server/apiserver"
)

// EffectsCommand is `millrace effects`.
func EffectsCommand() *cobra.Command {
	var o options
	var at string
	c := &cobra.Command{
		Use: "effects TYPE/NAME", Args: cobra.RangeArgs(1, 2),
		Short: "Show what the last change of an object set off, and when it came to rest",
		Long: "Show what the last change of an object set off: a tree of the changes that loops made because of it, and because\n" +
			"of those, each with the time since the change, and how many there were.",
		Example: "  millrace effects deployment/web\n  millrace effects deployment/web --at 10m",
	}
	cluster := newFlags(c)
	c.Flags().StringVar(&at, "at", "", "follow the last change before a moment: a revision, a time, or how long ago (10m)")
	c.Flags().StringVarP(&o.output, "output", "o", "", "json: what the server says")
	c.Flags().StringVar(&o.color, "color", "auto", "auto, always or never")
	o.limit = 1
	c.RunE = flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		if err := o.check(); err != nil {
			return err
		}
		t, err := find(cluster, c.Flags().Args())
		if err != nil {
			return err
		}
		query := url.Values{}
		if at != "" {
			m, err := findMoment(ctx, cluster, at)
			if err != nil {
				return err
			}
			query.Set("at", m.revision)
		}
		return t.effects(ctx, query, &printer{out: c.OutOrStdout(), options: o, colored: o.colored(c.OutOrStdout())})
	})
	return c
}

func (t *target) effects(ctx context.Context, query url.Values, p *printer) error {
	if p.output == "json" {
		var raw json.RawMessage
		if err := t.get(ctx, "/effects"+t.path, query, &raw); err != nil {
			return err
		}
		return p.line(strings.TrimSpace(string(raw)), nil)
	}
	var list apiserver.EffectList
	if err := t.get(ctx, "/effects"+t.path, query, &list); err != nil {
		return err
	}
	if err := p.tree(&list); err != nil {
		return err
	}
	return t.waiting(ctx, &list, p)
}

// mostWaiting is how many pods that wait are looked for.
const mostWaiting = 50

// waiting prints which of the pods that a change has set off still wait, and for what.
func (t *target) waiting(ctx context.Context, list *apiserver.EffectList, p *printer) error {
	looked := 0
	for i := range list.Items {
		e := &list.Items[i]
		if e.Resource != "pods" || e.Type != "ADDED" || looked == mostWaiting {
			continue
		}
		looked++
		var pod corev1.Pod
		err := t.get(ctx, path.Join("/api/v1/namespaces", e.Namespace, "pods", e.Name), nil, &pod)
		if apierrors.IsNotFound(err) || err == nil && pod.Status.Phase != corev1.PodPending {
			continue
		}
		if err != nil {
			return err
		}
		if err := p.line(fmt.Sprintf("%s waits: %s", compare.Printable(named(&e.Change)), compare.Printable(reasonOf(&pod))), nil); err != nil {
			return err
		}
	}
	return nil
}

// reasonOf says what a pod waits for.
func reasonOf(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			return strings.TrimSpace("container " + c.Name + ": " + w.Reason + " " + w.Message)
		}
	}
	return "its node has not told of it yet"
}

// tree prints changes below those that caused them.
func (p *printer) tree(list *apiserver.EffectList) error {
	below := map[string][]*apiserver.Effect{}
	shown := map[string]bool{}
	for i := range list.Items {
		shown[list.Items[i].Revision] = true
	}
	for i := range list.Items[min(1, len(list.Items)):] {
		e := &list.Items[i+1]
		parent := e.Because
		if !shown[parent] { // its cause is hidden
			parent = list.Items[0].Revision
		}
		below[parent] = append(below[parent], e)
	}
	if len(list.Items) == 0 {
		return p.line("You may read nothing of what was changed.", nil)
	}
	root := &list.Items[0]
	if err := p.branch(root, root, below, 0); err != nil {
		return err
	}
	return p.line(summary(list), nil)
}

// branch prints a change, and those that it has caused.
func (p *printer) branch(root, e *apiserver.Effect, below map[string][]*apiserver.Effect, depth int) error {
	when := e.Time.Local().Format("2006-01-02 15:04:05.000")
	if e != root {
		when = fmt.Sprintf("%23s", "+"+delay(e.Time.Sub(root.Time)))
	}
	line := fmt.Sprintf("%s  %s%s %s %s", when, strings.Repeat("  ", depth), p.paint(bold, compare.Printable(actor(&e.Change))), did(&e.Change), compare.Printable(named(&e.Change)))
	if err := p.line(line, nil); err != nil {
		return err
	}
	for _, child := range below[e.Revision] {
		if err := p.branch(root, child, below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// summary says how much there was, and when it came to rest.
func summary(list *apiserver.EffectList) string {
	n := len(list.Items) + list.Hidden - 1
	var b strings.Builder
	if n == 0 {
		b.WriteString("It has set off nothing")
	} else {
		last := list.Items[len(list.Items)-1].Time
		fmt.Fprintf(&b, "%d changes followed; the last came %s after it", n, delay(last.Sub(list.Items[0].Time)))
	}
	if list.Hidden > 0 {
		fmt.Fprintf(&b, "; %d are of objects that you may not read", list.Hidden)
	}
	if list.More {
		fmt.Fprintf(&b, "; there may be more after revision %s", list.Reached)
	}
	return b.String() + "."
}
