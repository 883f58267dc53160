/* A stand-in for pyxis, for tests: srun understands its words, and a task is told what was asked for in PYXIS_TEST_IMAGE,
 * PYXIS_TEST_MOUNTS, PYXIS_TEST_WORKDIR and PYXIS_TEST_ENV. There is no container. An image with "missing" in its name
 * fails as an import would. Needs no header of Slurm: cc -shared -fPIC -DSLURM_VER=0x160508 (22.05.8) -o pyxis.so pyxis.c
 */
#include <stdlib.h>
#include <string.h>

typedef struct spank_handle *spank_t;
typedef int (*spank_opt_cb)(int val, const char *optarg, int remote);
struct spank_option {
	char *name, *arginfo, *usage;
	int has_arg, val;
	spank_opt_cb cb;
};
extern int spank_option_register(spank_t, struct spank_option *);
extern int spank_setenv(spank_t, const char *, const char *, int);
extern void slurm_error(const char *, ...);

const char plugin_name[] = "pyxis-stand-in";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VER;
const unsigned int spank_plugin_version = 1;

enum { WORDS = 4 };
static char *words[WORDS] = {"container-image", "container-mounts", "container-workdir", "container-env"};
static const char *variables[WORDS] = {"PYXIS_TEST_IMAGE", "PYXIS_TEST_MOUNTS", "PYXIS_TEST_WORKDIR", "PYXIS_TEST_ENV"};
static char *given[WORDS];

static int take(int val, const char *optarg, int remote)
{
	(void) remote;
	given[val] = strdup(optarg);
	return 0;
}

int slurm_spank_init(spank_t spank, int ac, char **av)
{
	(void) ac, (void) av;
	for (int i = 0; i < WORDS; i++) {
		struct spank_option option = {words[i], "TEXT", "stand-in for pyxis", 1, i, take};
		spank_option_register(spank, &option);
	}
	return 0;
}

int slurm_spank_task_init(spank_t spank, int ac, char **av)
{
	(void) ac, (void) av;
	for (int i = 0; i < WORDS; i++)
		if (given[i])
			spank_setenv(spank, variables[i], given[i], 1);
	if (given[0] && strstr(given[0], "missing")) {
		slurm_error("pyxis: failed to import docker image: %s", given[0]);
		return -1;
	}
	return 0;
}
