package endpoints

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

const (
	// IdentityLabel is the label of the leases by which API servers show who they are. Its value is the kind of server.
	IdentityLabel = "apiserver.kubernetes.io/identity"
	kindOfServer  = "kube-apiserver"
	// An identity lease is valid for an hour, and those that are not any more are removed every hour.
	identityLeaseSeconds = 3600
	removeStaleEvery     = identityLeaseSeconds * time.Second
)

// Identity is the lease of one server in kube-system, as kube-apiserver has one: others learn from it which servers
// there are, and at which address. It is renewed every 10 seconds, and removed when the server ends. Leases of servers
// that have ended otherwise are removed by those that run.
type Identity struct {
	leases  coordinationclient.LeaseInterface
	host    string
	address string
	holder  string
	log     *slog.Logger
	failing bool
}

// NewIdentity makes the identity of the server on a host, which others reach at an address. It starts nothing: see Run.
func NewIdentity(config *rest.Config, host, address string, log *slog.Logger) (*Identity, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = kindOfServer
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	i := &Identity{leases: kube.CoordinationV1().Leases(metav1.NamespaceSystem), host: host, address: address, log: log}
	i.holder = i.name() + "_" + string(uuid.NewUUID())
	return i, nil
}

// name is the one that kube-apiserver has on this host: one that takes the other's place takes its lease, too.
func (i *Identity) name() string {
	var hashed []byte
	for _, part := range []string{i.host, kindOfServer} {
		hashed = append(binary.BigEndian.AppendUint16(hashed, uint16(len(part))), part...)
	}
	sum := sha256.Sum256(hashed)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// Run keeps the lease until ctx ends.
func (i *Identity) Run(ctx context.Context) error {
	renew, remove := time.NewTicker(renewEvery), time.NewTicker(removeStaleEvery)
	defer renew.Stop()
	defer remove.Stop()
	i.report(ctx, i.removeStale(ctx))
	for {
		i.report(ctx, i.renew(ctx))
		select {
		case <-ctx.Done():
			i.leave(context.WithoutCancel(ctx))
			return ctx.Err()
		case <-renew.C:
		case <-remove.C:
			i.report(ctx, i.removeStale(ctx))
		}
	}
}

// report logs a failure once, until the next success.
func (i *Identity) report(ctx context.Context, err error) {
	if err != nil && !i.failing && ctx.Err() == nil {
		i.log.Warn("the identity leases of API servers cannot be kept; trying again", "error", err)
	}
	i.failing = err != nil
}

// renew writes the lease.
func (i *Identity) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	lease, err := i.leases.Get(ctx, i.name(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: i.name(), Namespace: metav1.NamespaceSystem}}
		i.fill(lease)
		_, err = i.leases.Create(ctx, lease, metav1.CreateOptions{})
	case err == nil:
		i.fill(lease)
		_, err = i.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

func (i *Identity) fill(lease *coordinationv1.Lease) {
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	maps.Copy(lease.Labels, map[string]string{IdentityLabel: kindOfServer, corev1.LabelHostname: i.host})
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[corev1.AnnotationPeerAdvertiseAddress] = i.address
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &i.holder, new(int32(identityLeaseSeconds))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
}

// leave removes the lease, unless another server has taken it.
func (i *Identity) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	lease, err := i.leases.Get(ctx, i.name(), metav1.GetOptions{})
	if err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == i.holder {
		err = i.remove(ctx, lease)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		i.log.Warn("the identity lease of this server stays until it ends", "error", err)
	}
}

// remove deletes a lease, unless it has changed.
func (i *Identity) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	err := i.leases.Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it was removed or renewed meanwhile
	}
	return err
}

// removeStale removes the leases of servers that did not renew them.
func (i *Identity) removeStale(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	all, err := i.leases.List(ctx, metav1.ListOptions{LabelSelector: IdentityLabel + "=" + kindOfServer})
	if err != nil {
		return err
	}
	for n := range all.Items {
		if stale(&all.Items[n]) {
			err = errors.Join(err, i.remove(ctx, &all.Items[n]))
		}
	}
	return err
}

func stale(lease *coordinationv1.Lease) bool {
	s := lease.Spec
	return s.RenewTime == nil || s.LeaseDurationSeconds == nil ||
		time.Since(s.RenewTime.Time) > time.Duration(*s.LeaseDurationSeconds)*time.Second
}
