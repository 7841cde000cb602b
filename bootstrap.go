package millrace

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/server/allocation"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/rbac"
	"github.com/millrace/millrace/internal/server/endpoints"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/scheduling"
)

// bootstrapEvery returns how often the objects are checked that every cluster has: rarely in a cluster without a port, where only this process can change
// one. Zero is the default.
func (c *Cluster) bootstrapEvery() time.Duration {
	if c.options.Listen == noPort {
		return time.Hour
	}
	return 0
}

// bootstrap makes the objects that every cluster has: namespaces, priority classes, and the Service of the API servers, which
// listen on port.
func bootstrap(ctx context.Context, r *registry.Registry, serviceRange string, port int) error {
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if err := ensure(ctx, r, schema.GroupResource{Resource: "namespaces"}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for _, class := range scheduling.SystemClasses() {
		if err := ensure(ctx, r, schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}, class); err != nil {
			return err
		}
	}
	address, err := firstAddress(serviceRange)
	if err != nil {
		return err
	}
	return ensure(ctx, r, schema.GroupResource{Resource: "services"}, endpoints.Service(address, port))
}

// ensure creates an object unless it exists.
func ensure(ctx context.Context, r *registry.Registry, gr schema.GroupResource, o resource.Object) error {
	k, ok := r.Catalogue.Kind(gr)
	if !ok {
		return fmt.Errorf("there is no kind %v", gr)
	}
	storage, err := r.Storage(k)
	if err != nil {
		return err
	}
	if _, err := storage.Get(ctx, o.GetNamespace(), o.GetName(), registry.Freshness{Any: true}); err == nil {
		return nil
	}
	k.Default(o)
	_, err = storage.Create(ctx, o.GetNamespace(), o, registry.WriteOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %v %s: %w", gr, o.GetName(), err)
	}
	return nil
}

// firstAddress returns the first usable address of the (first) service range: the one of the Service "kubernetes".
func firstAddress(serviceRange string) (netip.Addr, error) {
	ranges, err := allocation.ParseRanges(serviceRange)
	if err != nil {
		return netip.Addr{}, err
	}
	return ranges[0].Addr().Next(), nil
}

const (
	infoNamespace = "kube-public"
	infoName      = "cluster-info"
	infoKey       = "kubeconfig"
)

// addJoining adds the permissions that nodes need to join with a bootstrap token: tokens of kubeadm's group may request client
// certificates, which are approved; nodes may renew theirs; and everybody may read cluster-info.
func addJoining(p *rbac.Policy) {
	tokens := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: auth.BootstrapNodes}
	nodes := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: auth.Nodes}
	const requests = "system:certificates.k8s.io:certificatesigningrequests:"
	for _, b := range []struct {
		name, role string
		subject    rbacv1.Subject
	}{
		{"millrace:node-bootstrapper", "system:node-bootstrapper", tokens},
		{"millrace:node-autoapprove-bootstrap", requests + "nodeclient", tokens},
		{"millrace:node-autoapprove-certificate-rotation", requests + "selfnodeclient", nodes},
	} {
		binding := clusterBinding(b.name, b.role)
		binding.Subjects = []rbacv1.Subject{b.subject}
		p.ClusterRoleBindings = append(p.ClusterRoleBindings, binding)
	}
	const reader = "millrace:cluster-info"
	p.Roles = append(p.Roles, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: reader, Namespace: infoNamespace},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{infoName}}},
	})
	p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader, Namespace: infoNamespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: reader},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: auth.Anonymous}},
	})
}

// publish writes the server's address and CA certificate into cluster-info. On an external etcd, where several servers may share
// the cluster, an existing cluster-info is kept.
func (c *Cluster) publish(ctx context.Context, r *registry.Registry) error {
	if c.options.Listen == noPort {
		return nil
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.authorities()}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write %s: %w", infoName, err)
	}
	fresh := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: infoName, Namespace: infoNamespace}, Data: map[string]string{infoKey: string(text)}}
	gr := schema.GroupResource{Resource: "configmaps"}
	if err := ensure(ctx, r, gr, fresh); err != nil || len(c.options.Etcd.Servers) > 0 {
		return err
	}
	kind, _ := r.Catalogue.Kind(gr)
	storage, err := r.Storage(kind)
	if err != nil {
		return err
	}
	_, _, err = storage.Update(ctx, infoNamespace, infoName, func(_ context.Context, old resource.Object) (resource.Object, error) {
		changed := old.DeepCopyObject().(*corev1.ConfigMap)
		changed.Data = maps.Clone(changed.Data)
		if changed.Data == nil {
			changed.Data = map[string]string{}
		}
		changed.Data[infoKey] = string(text)
		return changed, nil
	}, registry.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update %s: %w", infoName, err)
	}
	return nil
}
