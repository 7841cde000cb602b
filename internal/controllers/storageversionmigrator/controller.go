package storageversionmigrator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name = "storage-version-migrator-controller"
	// runner owns what the loop applies to definitions.
	runner = "migration-runner-controller"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, New: New}

type controller struct {
	clients    *loop.Clients
	migrations *informer.Shared[*migrationv1.StorageVersionMigration]
	writer     *loop.Writer[*migrationv1.StorageVersionMigration]
}

// New makes the loop. Its keys are migrations. Older API servers have none.
func New(c *loop.Clients) (loop.Runner, error) {
	if c.Discovery != nil {
		if _, err := c.Discovery.ServerResourcesForGroupVersion(migrationv1.SchemeGroupVersion.String()); apierrors.IsNotFound(err) {
			return nil, nil
		}
	}
	r := &controller{clients: c, migrations: loop.Informer(c, informer.For(c.Kube.StoragemigrationV1().StorageVersionMigrations()))}
	r.writer = loop.NewWriter(
		informer.ResourceOf[*migrationv1.StorageVersionMigration](c.Kube.StoragemigrationV1().RESTClient(), "storageversionmigrations"), r.migrations, "")
	return &loop.Loop{
		Name: name, Clients: c, Workers: 5, Sync: r.sync,
		Watches: []loop.Watch{loop.Self(r.migrations), loop.Changes(r.migrations, r.others)},
	}, nil
}

// others are the migrations that may begin when one has ended.
func (r *controller) others(before, after *migrationv1.StorageVersionMigration) []loop.Key {
	if before == nil || after != nil && (!is(before, migrationv1.MigrationRunning) || is(after, migrationv1.MigrationRunning)) {
		return nil
	}
	var keys []loop.Key
	for m := range r.migrations.List() {
		if m.Spec.Resource == before.Spec.Resource && m.Name != before.Name {
			keys = append(keys, informer.KeyOf(m))
		}
	}
	return keys
}

func is(m *migrationv1.StorageVersionMigration, condition migrationv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
}

func ended(m *migrationv1.StorageVersionMigration) bool {
	return is(m, migrationv1.MigrationSucceeded) || is(m, migrationv1.MigrationFailed)
}

// sync takes a migration one step further. The change of its status wakes it for the next.
func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	m, ok := r.migrations.Lookup(key)
	switch {
	case !ok || m.DeletionTimestamp != nil:
		return loop.Result{}, nil
	case ended(m) && is(m, migrationv1.MigrationRunning):
		return loop.Result{}, r.finish(ctx, m)
	case ended(m):
		return loop.Result{}, nil
	case !is(m, migrationv1.MigrationRunning):
		return loop.Result{}, r.begin(ctx, m)
	case m.Status.ResourceVersion == "":
		return r.fix(ctx, m)
	}
	return loop.Result{}, r.migrate(ctx, m)
}

// begin lets a migration run if no other of its resource does, or is older.
func (r *controller) begin(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	for other := range r.migrations.List() {
		if other.Spec.Resource != m.Spec.Resource || other.Name == m.Name {
			continue
		}
		if is(other, migrationv1.MigrationRunning) || !ended(other) && older(other, m) {
			return nil
		}
	}
	if err := r.mark(ctx, m); err != nil {
		return err
	}
	return r.set(ctx, m, migrationv1.MigrationRunning, metav1.ConditionTrue, "MigrationRunning", "The migration is running")
}

func older(a, b *migrationv1.StorageVersionMigration) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// discoveryTime is how long a new resource may take to be discovered.
const discoveryTime = time.Minute

// fix notes the revision from which on nothing is to be migrated.
func (r *controller) fix(ctx context.Context, m *migrationv1.StorageVersionMigration) (loop.Result, error) {
	kind, err := r.kindOf(m)
	if err != nil {
		return loop.Result{}, err
	}
	if kind == nil {
		if left := discoveryTime - r.clients.Now().Sub(m.CreationTimestamp.Time); left > 0 {
			return loop.Result{After: min(left, 10*time.Second)}, nil
		}
		return loop.Result{}, r.fail(ctx, m, "resource not found")
	}
	if !kind.Can("list", "patch") {
		return loop.Result{}, r.fail(ctx, m, "resource does not support migration: it cannot be listed and patched")
	}
	list, err := r.clients.Metadata.Resource(kind.Resource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return loop.Result{}, fmt.Errorf("list %s: %w", kind.Resource, err)
	}
	changed := m.DeepCopy()
	changed.Status.ResourceVersion = list.ResourceVersion
	return loop.Result{}, r.write(ctx, changed)
}

func (r *controller) fail(ctx context.Context, m *migrationv1.StorageVersionMigration, message string) error {
	return r.set(ctx, m, migrationv1.MigrationFailed, metav1.ConditionTrue, "StorageVersionMigrationFailed", message)
}

// finish says that a migration runs no more.
func (r *controller) finish(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	if err := r.unmark(ctx, m); err != nil {
		return err
	}
	return r.set(ctx, m, migrationv1.MigrationRunning, metav1.ConditionFalse, "MigrationCompleted", "Migration completed")
}

// set writes a condition.
func (r *controller) set(ctx context.Context, m *migrationv1.StorageVersionMigration, condition migrationv1.MigrationConditionType, status metav1.ConditionStatus, reason, message string) error {
	changed := m.DeepCopy()
	meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
		Type: string(condition), Status: status, Reason: reason, Message: message,
		ObservedGeneration: m.Generation, LastTransitionTime: metav1.NewTime(r.clients.Now()),
	})
	return r.write(ctx, changed)
}

func (r *controller) write(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	if _, err := r.writer.UpdateStatus(ctx, m); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the status of migration %s: %w", m.Name, err)
	}
	return nil
}
