package core

import (
	"context"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkEndpoints(_ context.Context, e *corev1.Endpoints) field.ErrorList            { return nil }
func checkEndpointsUpdate(_ context.Context, e, old *corev1.Endpoints) field.ErrorList { return nil }
func endpointsWarnings(e, old *corev1.Endpoints) []string                              { return nil }
func checkLimitRange(l *corev1.LimitRange) field.ErrorList                             { return nil }
func checkQuota(q *corev1.ResourceQuota) field.ErrorList                               { return nil }
func checkQuotaUpdate(q, old *corev1.ResourceQuota) field.ErrorList                    { return nil }
func checkQuotaStatus(q *corev1.ResourceQuota) field.ErrorList                         { return nil }
func checkVolume(pv *corev1.PersistentVolume) field.ErrorList                          { return nil }
func checkVolumeUpdate(pv, old *corev1.PersistentVolume) field.ErrorList               { return nil }
func volumeWarnings(pv *corev1.PersistentVolume) []string                              { return nil }
func checkClaim(c *corev1.PersistentVolumeClaim) field.ErrorList                       { return nil }
func checkClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList            { return nil }
func checkClaimStatus(c, old *corev1.PersistentVolumeClaim) field.ErrorList            { return nil }
func claimWarnings(c *corev1.PersistentVolumeClaimSpec, path *field.Path) []string     { return nil }
func checkService(s, old *corev1.Service) field.ErrorList                              { return nil }
func checkServiceUpdate(s, old *corev1.Service) field.ErrorList                        { return nil }
func checkServiceStatus(s, old *corev1.Service) field.ErrorList                        { return nil }
func serviceWarnings(s, old *corev1.Service) []string                                  { return nil }
