// Package storageversionmigrator has all objects of a resource written anew, so that each is stored in the version, and
// encrypted by the key, that the server stores with today.
//
// What is guaranteed: of the migrations of one resource one runs at a time, the oldest first, and its conditions say
// how it goes: Running, then Succeeded or Failed. Each object that was there when it began, and that nobody has written
// since, is written once more, unchanged. A custom resource's definition says StorageMigrating meanwhile; when its
// migration has succeeded and its definition is still the one of the beginning, status.storedVersions is the storage
// version alone. A loop that ends halfway goes on with what nobody has written since the migration began.
//
// What may not be assumed: that an object that no longer passes validation is migrated. Its refusal makes the migration
// fail.
package storageversionmigrator
