package main

import (
	"context"
	"crypto/sha256"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

var (
	configMapKind  = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
)

func websites(c *loop.Clients) (loop.Runner, error) {
	client, err := loop.ResourceFor[*appsv1.Deployment](c, deploymentKind, "deployments")
	if err != nil {
		return nil, err
	}
	sites := loop.Informer(c, informer.For(c.Kube.CoreV1().ConfigMaps("")), loop.Selection{Labels: "website"})
	deployments := loop.Informer(c, informer.For(c.Kube.AppsV1().Deployments("")), loop.Selection{Labels: "website"})
	// Of other Deployments only the names are kept: one with the wanted name may be deleted later.
	others := informer.ShareProjection(c.Informers, informer.Metadata(c.Metadata, appsv1.SchemeGroupVersion.WithResource("deployments"), ""),
		func(*metav1.PartialObjectMetadata) struct{} { return struct{}{} },
		informer.Options[struct{}]{Name: "other deployments", Logger: c.Log, LabelSelector: "!website"})
	writer := loop.NewWriter(client, deployments, "website")

	sync := func(ctx context.Context, key loop.Key) (loop.Result, error) {
		site, ok := sites.Lookup(key)
		if !ok || site.DeletionTimestamp != nil {
			return loop.Result{}, nil
		}
		have, exists := deployments.Lookup(key)
		if others.Has(key) || exists && !loop.ControlledBy(have, site) {
			return loop.Result{}, loop.Terminal(fmt.Errorf("deployment %s belongs to somebody else", key))
		}
		var err error
		want := deploymentOf(site)
		if !exists {
			_, err = writer.Create(ctx, want) // not Apply, which would take over an object that the cache does not show
		} else {
			want, err = writer.Apply(ctx, want)
		}
		switch {
		case apierrors.IsAlreadyExists(err):
			return loop.Result{}, loop.ErrBehind // one of the caches will show it soon
		case err == nil && (!exists || want.Generation != have.Generation):
			c.Recorder.Eventf(site, corev1.EventTypeNormal, "Published", "Deployment %s serves %d files", key.Name, len(site.Data))
		}
		return loop.Result{}, err
	}
	return &loop.Loop{Name: "website", Clients: c, Workers: 2, Sync: sync, Watches: []loop.Watch{
		loop.Self(sites), loop.Owned(deployments, configMapKind, loop.SpecChanged), loop.Self(deployments, loop.Gone), loop.Self(others),
	}}, nil
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
