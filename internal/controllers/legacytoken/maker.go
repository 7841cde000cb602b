package legacytoken

import (
	"bytes"
	"context"
	"crypto"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const makerName = "serviceaccount-token-controller"

// Making configures the maker.
type Making struct {
	// Key signs the tokens. Without it the loop does not run.
	Key crypto.Signer
	// RootCA are the certificates, in PEM, by which clients know the API server.
	RootCA []byte
}

// Entry is this loop among the others.
func (ma Making) Entry() loop.Entry {
	return loop.Entry{Name: makerName, Aliases: []string{"serviceaccount-token"}, New: ma.new}
}

type maker struct {
	Making
	kube     kubernetes.Interface
	secrets  *informer.Shared[*corev1.Secret]
	accounts *informer.Shared[*corev1.ServiceAccount]
}

// byAccount finds secrets by the account that they name.
var byAccount = informer.NewIndex(func(s *corev1.Secret) []string {
	return []string{s.Namespace + "/" + s.Annotations[corev1.ServiceAccountNameKey]}
})

func (ma Making) new(c *loop.Clients) (loop.Runner, error) {
	if ma.Key == nil {
		return nil, nil
	}
	m := &maker{Making: ma, kube: c.Kube, secrets: secretsOf(c), accounts: loop.Informer(c, informer.For(c.Kube.CoreV1().ServiceAccounts("")))}
	m.secrets.AddIndex(byAccount)
	return &loop.Loop{
		Name: makerName, Clients: c, Workers: 5, Sync: m.sync,
		Watches: []loop.Watch{loop.Self(m.secrets), loop.Mapped(m.accounts, m.ofAccount)},
	}, nil
}

func (m *maker) ofAccount(a *corev1.ServiceAccount) []loop.Key {
	var all []loop.Key
	for s := range m.secrets.By(byAccount, a.Namespace+"/"+a.Name) {
		all = append(all, informer.KeyOf(s))
	}
	return all
}

// sync completes a secret, or deletes it if there is no account for it. When it is gone, no account lists it any more.
func (m *maker) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	s, ok := m.secrets.Lookup(key)
	if !ok {
		return loop.Result{}, m.forget(ctx, key)
	}
	if s.DeletionTimestamp != nil {
		return loop.Result{}, nil
	}
	a, err := m.accountOf(ctx, s)
	switch {
	case err != nil:
		return loop.Result{}, err
	case a == nil:
		err := m.kube.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return loop.Result{}, fmt.Errorf("delete secret %s, whose service account is gone: %w", key, err)
		}
		return loop.Result{}, nil
	}
	return loop.Result{}, m.complete(ctx, s, a)
}

// accountOf returns the account of a secret, or nil. One that the cache does not show may just have been created.
func (m *maker) accountOf(ctx context.Context, s *corev1.Secret) (*corev1.ServiceAccount, error) {
	if a := accountOf(m.accounts, s); a != nil {
		return a, nil
	}
	a, err := m.kube.CoreV1().ServiceAccounts(s.Namespace).Get(ctx, s.Annotations[corev1.ServiceAccountNameKey], metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil || !belongs(s, a) {
		return nil, err
	}
	return a, nil
}

// complete writes what is missing in a secret.
func (m *maker) complete(ctx context.Context, s *corev1.Secret, a *corev1.ServiceAccount) error {
	changed := s.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, corev1.ServiceAccountUIDKey, string(a.UID))
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	changed.Data[corev1.ServiceAccountNamespaceKey] = []byte(s.Namespace)
	if len(m.RootCA) > 0 {
		changed.Data[corev1.ServiceAccountRootCAKey] = m.RootCA
	}
	if len(changed.Data[corev1.ServiceAccountTokenKey]) == 0 {
		token, err := sign(m.Key, a, s.Name)
		if err != nil {
			return loop.Terminal(err)
		}
		changed.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	if s.Annotations[corev1.ServiceAccountUIDKey] == string(a.UID) && maps.EqualFunc(s.Data, changed.Data, bytes.Equal) {
		return nil
	}
	if _, err := m.kube.CoreV1().Secrets(s.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("complete secret %s/%s of a service account: %w", s.Namespace, s.Name, err)
	}
	return nil
}

// forget removes a secret that is gone from the accounts that list it.
func (m *maker) forget(ctx context.Context, key loop.Key) error {
	lists := func(r corev1.ObjectReference) bool { return r.Name == key.Name }
	for a := range m.accounts.ListNamespace(key.Namespace) {
		if !slices.ContainsFunc(a.Secrets, lists) {
			continue
		}
		if _, err := m.kube.CoreV1().Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return err // there is another secret of that name
		}
		changed := a.DeepCopy()
		changed.Secrets = slices.DeleteFunc(changed.Secrets, lists)
		if _, err := m.kube.CoreV1().ServiceAccounts(a.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("take secret %s from the list of a service account: %w", key, err)
		}
	}
	return nil
}
