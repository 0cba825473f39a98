/* The names of the simulated disk: two tables of paths (seen and durable) and the list of changes
 * that lie between them. A change belongs to the directory that its (new) name is in and becomes
 * durable when that directory is synced, or by chance in a crash, each independently.
 *
 * An inode has at most one name in a table: there are no hard links here, and a rename that
 * survives moves the inode from wherever it is. The caller holds sim_fs.mutex. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/macros.h"
#include "os/sim_fs_int.h"

struct sim_inode *sim_inode_new(struct sim_fs *sim, bool is_dir) {
    struct sim_inode *inode = sim_must(calloc(1, sizeof(*inode)));
    inode->is_dir = is_dir;
    inode->ops_end = &inode->ops;
    inode->seen.chunk_counter = &sim->chunk_count;
    return inode;
}

struct sim_inode *sim_inode_ref(struct sim_inode *inode) {
    inode->refs++;
    return inode;
}

void sim_inode_unref(struct sim_inode *inode) {
    CHECK(inode->refs > 0);
    if (--inode->refs > 0) {
        return;
    }
    sim_ops_free(inode);
    sim_image_done(&inode->seen);
    sim_image_done(&inode->durable);
    free(inode);
}

/* ---- paths ---- */

int sim_path_clean(const char *path, char ret[SIM_PATH_MAX]) {
    size_t n = 0;
    while (*path != 0) {
        while (*path == '/') {
            path++;
        }
        size_t size = strcspn(path, "/");
        if (size > 0 && !(size == 1 && path[0] == '.')) {
            if (n + 1 + size >= SIM_PATH_MAX) {
                return -HL_ERR_INVALID;
            }
            ret[n++] = '/';
            memcpy(ret + n, path, size);
            n += size;
        }
        path += size;
    }
    if (n == 0) {
        ret[n++] = '/';
    }
    ret[n] = 0;
    return 0;
}

void sim_path_parent(const char *clean, char ret[SIM_PATH_MAX]) {
    const char *slash = strrchr(clean, '/');
    size_t size = slash == NULL || slash == clean ? 1 : (size_t)(slash - clean);
    CHECK(slash != NULL && size < SIM_PATH_MAX);
    memcpy(ret, clean, size);
    ret[size] = 0;
}

/* ---- tables ---- */

struct sim_entry *sim_names_find(struct sim_names *names, const char *path) {
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->entries[i].path, path) == 0) {
            return &names->entries[i];
        }
    }
    return NULL;
}

void sim_names_put(struct sim_names *names, const char *path, struct sim_inode *inode) {
    struct sim_entry *entry = sim_names_find(names, path);
    sim_inode_ref(inode);
    if (entry != NULL) {
        sim_inode_unref(entry->inode);
        entry->inode = inode;
        return;
    }
    if (names->count == names->capacity) {
        names->capacity = names->capacity * 2 + 16;
        names->entries =
            sim_must(realloc(names->entries, names->capacity * sizeof(*names->entries)));
    }
    names->entries[names->count++] = (struct sim_entry){sim_must(strdup(path)), inode};
}

static void remove_entry(struct sim_names *names, struct sim_entry *entry) {
    sim_inode_unref(entry->inode);
    free(entry->path);
    *entry = names->entries[--names->count];
}

void sim_names_remove(struct sim_names *names, const char *path) {
    struct sim_entry *entry = sim_names_find(names, path);
    if (entry != NULL) {
        remove_entry(names, entry);
    }
}

void sim_names_clear(struct sim_names *names) {
    while (names->count > 0) {
        remove_entry(names, &names->entries[names->count - 1]);
    }
}

bool sim_names_is_dir(struct sim_names *names, const char *path) {
    if (strcmp(path, "/") == 0) {
        return true;
    }
    struct sim_entry *entry = sim_names_find(names, path);
    return entry != NULL && entry->inode->is_dir;
}

bool sim_names_has_parent(struct sim_names *names, const char *path) {
    char parent[SIM_PATH_MAX];
    sim_path_parent(path, parent);
    return sim_names_is_dir(names, parent);
}

bool sim_names_has_children(struct sim_names *names, const char *path) {
    size_t size = strlen(path);
    for (size_t i = 0; i < names->count; i++) {
        if (strncmp(names->entries[i].path, path, size) == 0 &&
            names->entries[i].path[size] == '/') {
            return true;
        }
    }
    return false;
}

/* ---- pending changes ---- */

void sim_note_name(struct sim_fs *sim, int kind, const char *path, const char *to,
                   struct sim_inode *inode) {
    struct sim_name_op *op = sim_must(calloc(1, sizeof(*op)));
    op->kind = kind;
    op->path = sim_must(strdup(path));
    op->to = to == NULL ? NULL : sim_must(strdup(to));
    op->inode = sim_inode_ref(inode);
    *sim->name_ops_end = op;
    sim->name_ops_end = &op->next;
}

/* Any name of the inode goes: where it was created or last renamed to may itself not have
 * survived. */
static void remove_inode(struct sim_names *names, const struct sim_inode *inode) {
    for (size_t i = 0; i < names->count; i++) {
        if (names->entries[i].inode == inode) {
            remove_entry(names, &names->entries[i]);
            return;
        }
    }
}

/* The operation holds a reference to its inode, so removing names cannot free it. */
static void apply_name(struct sim_names *names, const struct sim_name_op *op) {
    if (op->kind == SIM_REMOVE) {
        struct sim_entry *entry = sim_names_find(names, op->path);
        if (entry != NULL && entry->inode == op->inode) {
            remove_entry(names, entry);
        }
        return;
    }
    remove_inode(names, op->inode);
    sim_names_put(names, op->kind == SIM_RENAME ? op->to : op->path, op->inode);
}

static void name_op_free(struct sim_name_op *op) {
    sim_inode_unref(op->inode);
    free(op->path);
    free(op->to);
    free(op);
}

void sim_settle_dir(struct sim_fs *sim, const char *dir) {
    struct sim_name_op **link = &sim->name_ops;
    while (*link != NULL) {
        struct sim_name_op *op = *link;
        char parent[SIM_PATH_MAX];
        sim_path_parent(op->to != NULL ? op->to : op->path, parent);
        if (strcmp(parent, dir) == 0) {
            apply_name(&sim->durable, op);
            *link = op->next;
            name_op_free(op);
        } else {
            link = &op->next;
        }
    }
    sim->name_ops_end = link;
}

/* Renames every entry at or below from. */
static void move_entries(struct sim_names *names, const char *from, const char *to) {
    size_t size = strlen(from);
    for (size_t i = 0; i < names->count; i++) {
        char *path = names->entries[i].path;
        if (strncmp(path, from, size) == 0 && (path[size] == 0 || path[size] == '/')) {
            char moved[SIM_PATH_MAX * 2];
            snprintf(moved, sizeof(moved), "%s%s", to, path + size);
            names->entries[i].path = sim_must(strdup(moved));
            free(path);
        }
    }
}

void sim_move_dir(struct sim_fs *sim, const char *from, const char *to) {
    while (sim->name_ops != NULL) {
        struct sim_name_op *op = sim->name_ops;
        apply_name(&sim->durable, op);
        sim->name_ops = op->next;
        name_op_free(op);
    }
    sim->name_ops_end = &sim->name_ops;
    move_entries(&sim->seen, from, to);
    move_entries(&sim->durable, from, to);
}

/* Names whose directory did not survive are gone with it. */
static void drop_orphans(struct sim_names *names) {
    size_t i = 0;
    while (i < names->count) {
        if (sim_names_has_parent(names, names->entries[i].path)) {
            i++;
        } else {
            remove_entry(names, &names->entries[i]);
            i = 0; /* its children, if it was a directory, may have been looked at before */
        }
    }
}

void sim_crash_names(struct sim_fs *sim) {
    while (sim->name_ops != NULL) {
        struct sim_name_op *op = sim->name_ops;
        if (sim_chance(sim, sim->options.survive_percent)) {
            apply_name(&sim->durable, op);
        }
        sim->name_ops = op->next;
        name_op_free(op);
    }
    sim->name_ops_end = &sim->name_ops;
    drop_orphans(&sim->durable);
}
