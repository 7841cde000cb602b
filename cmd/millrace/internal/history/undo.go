package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/cmd/millrace/internal/compare"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
)

// UndoCommand is `millrace undo`.
func UndoCommand() *cobra.Command {
	var to string
	var yes bool
	c := &cobra.Command{
		Use: "undo TYPE/NAME --to WHEN", Args: cobra.RangeArgs(1, 2),
		Short: "Make an object what it was",
		Long: "Make an object what it was at a moment: a revision (1234), a time (2026-11-29T12:00:00Z), or how long ago (10m). What\n" +
			"would change is shown first. Its status stays, and so does what others own of it. An object that was deleted since is\n" +
			"made again; one that was not there yet is deleted.",
		Example: "  millrace undo deployment/web --to 10m",
	}
	cluster := newFlags(c)
	c.Flags().StringVar(&to, "to", "", "the moment")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.RunE = flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		if to == "" {
			return errors.New("--to is needed: a revision (1234), a time (2026-11-29T12:00:00Z), or how long ago (10m)")
		}
		t, err := find(cluster, c.Flags().Args())
		if err != nil {
			return err
		}
		u := &undo{target: t, out: c.OutOrStdout(), in: c.InOrStdin(), yes: yes}
		return u.run(ctx, to)
	})
	return c
}

// undo makes one object what it was.
type undo struct {
	*target
	out io.Writer
	in  io.Reader
	yes bool
}

func (u *undo) run(ctx context.Context, to string) error {
	m, err := findMoment(ctx, u.flags, to)
	if err != nil {
		return err
	}
	var then map[string]any
	err = u.get(ctx, "/at/"+m.revision+u.path, nil, &then)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	now, err := u.live.Get(ctx, u.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && missing:
		return fmt.Errorf("%s is not there, and was not there at revision %s", u.title, m.revision)
	case apierrors.IsNotFound(err):
		return u.create(ctx, then)
	case err != nil:
		return err
	case missing:
		return u.remove(ctx, now)
	}
	return u.patch(ctx, now, then)
}

// patch changes the object back.
func (u *undo) patch(ctx context.Context, now *unstructured.Unstructured, then map[string]any) error {
	before, after := wanted(now.Object), wanted(then)
	all := compare.Differences(before, after)
	if len(all) == 0 {
		_, err := fmt.Fprintf(u.out, "%s is what it was.\n", u.title)
		return err
	}
	if err := u.show("would change:", all); err != nil {
		return err
	}
	if !u.agreed() {
		return nil
	}
	patch, err := mergePatch(before, after, now.GetResourceVersion())
	if err != nil {
		return err
	}
	_, err = u.live.Patch(ctx, u.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%s has just been changed by somebody else; nothing was undone: %w", u.title, err)
	}
	return u.done(err, "was changed back")
}

// manager is the name under which fields are set.
const manager = "millrace-undo"

// mergePatch returns the patch from one state to another, if the object still has a resource version.
func mergePatch(before, after map[string]any, version string) ([]byte, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	meta, ok := after["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("the object has no metadata")
	}
	meta = maps.Clone(meta)
	meta["resourceVersion"] = version
	after = maps.Clone(after)
	after["metadata"] = meta
	wanted, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(old, wanted)
}

// create makes an object again.
func (u *undo) create(ctx context.Context, then map[string]any) error {
	o := &unstructured.Unstructured{Object: wanted(then)}
	if _, err := fmt.Fprintf(u.out, "%s was deleted since, and would be made again.\n", u.title); err != nil || !u.agreed() {
		return err
	}
	_, err := u.live.Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
	return u.done(err, "was made again")
}

// remove deletes an object that was not there.
func (u *undo) remove(ctx context.Context, now *unstructured.Unstructured) error {
	if _, err := fmt.Fprintf(u.out, "%s was not there, and would be deleted.\n", u.title); err != nil || !u.agreed() {
		return err
	}
	uid, version := now.GetUID(), now.GetResourceVersion()
	err := u.live.Delete(ctx, u.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	return u.done(err, "was deleted")
}

// wanted returns what people want of an object: not what the server sets, and not its status.
func wanted(o map[string]any) map[string]any {
	o = compare.Essential(o)
	delete(o, "status")
	if meta, ok := o["metadata"].(map[string]any); ok {
		for _, key := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
			delete(meta, key)
		}
	}
	return o
}

func (u *undo) show(what string, all []compare.Difference) error {
	lines := []string{u.title + " " + what}
	for _, d := range all {
		lines = append(lines, "    "+compare.Printable(d.String()))
	}
	_, err := fmt.Fprintln(u.out, strings.Join(lines, "\n"))
	return err
}

// agreed asks whether to go on.
func (u *undo) agreed() bool {
	if u.yes {
		return true
	}
	if flags.Agreed(u.in, u.out, "Do it?") {
		return true
	}
	fmt.Fprintln(u.out, "Nothing was done.")
	return false
}

func (u *undo) done(err error, what string) error {
	if err == nil {
		_, err = fmt.Fprintln(u.out, u.title, what)
	}
	return err
}
