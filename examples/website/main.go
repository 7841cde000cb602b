// Command website is a complete operator: each ConfigMap with the label
// "website" becomes a Deployment of web servers that serve its files. New content
// rolls out by itself, what somebody changes by hand is put right, and when the
// ConfigMap goes, the garbage collector takes the Deployment with it.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

var configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	clients, err := loop.NewClients(config, slog.Default())
	if err != nil {
		log.Fatal(err)
	}
	clients = clients.Named("website")
	election := loop.Election{Lease: loop.Key{Namespace: "default", Name: "website"}}
	if err := loop.Run(ctx, clients, loop.Elected(clients, election, websites(clients))); err != nil {
		log.Fatal(err)
	}
}

func websites(c *loop.Clients) loop.Runner {
	var writes loop.Writes
	sites := loop.Informer(c, informer.For(c.Kube.CoreV1().ConfigMaps("")))
	deployments := loop.Informer(c, informer.For(c.Kube.AppsV1().Deployments("")))
	sync := func(ctx context.Context, key loop.Key) (loop.Result, error) {
		if err := writes.Settled(ctx, key); err != nil {
			return loop.Result{}, err
		}
		site, ok := sites.Lookup(key)
		if !ok || !metav1.HasLabel(site.ObjectMeta, "website") || site.DeletionTimestamp != nil {
			return loop.Result{}, nil
		}
		want := deploymentOf(site)
		have, exists := deployments.Lookup(key)
		var err error
		switch client := c.Kube.AppsV1().Deployments(key.Namespace); {
		case !exists:
			have, err = client.Create(ctx, want, metav1.CreateOptions{})
		case !loop.ControlledBy(have, site):
			return loop.Result{}, loop.Terminal(fmt.Errorf("deployment %s belongs to somebody else", key))
		case equality.Semantic.DeepDerivative(want.Spec, have.Spec):
			return loop.Result{}, nil
		default:
			want.ResourceVersion = have.ResourceVersion // change what we saw, or nothing
			have, err = client.Update(ctx, want, metav1.UpdateOptions{})
		}
		if err != nil {
			return loop.Result{}, err
		}
		writes.Wrote(key, deployments, have.ResourceVersion)
		c.Recorder.Eventf(site, corev1.EventTypeNormal, "Published", "Deployment %s serves %d files", key.Name, len(site.Data))
		return loop.Result{}, nil
	}
	return &loop.Loop{Name: "website", Clients: c, Workers: 2, Sync: sync, Watches: []loop.Watch{
		loop.Self(sites), loop.Owned(deployments, configMapKind),
	}}
}

func deploymentOf(site *corev1.ConfigMap) *appsv1.Deployment {
	labels := map[string]string{"website": site.Name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace, Labels: labels}}
	d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(site, configMapKind)}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Annotations = map[string]string{"content": fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, site.Data)))}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "web", Image: "nginx:1.29",
		VolumeMounts: []corev1.VolumeMount{{Name: "files", MountPath: "/usr/share/nginx/html"}},
	}}
	files := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: site.Name}}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{ConfigMap: files}}}
	return d
}
