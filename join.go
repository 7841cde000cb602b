package millrace

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/auth/rbac"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
)

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
