#!/usr/bin/env python3
"""Gives our JSON documents to jubilant's own parsers, the way jubilant itself would get them: as the output of its
command. The documents are of the sample model of the command's tests, which has what a real one has not yet.

    parse_status.py DOCUMENTS.json    a map, by the command that answers with each
"""

import json
import pathlib
import stat
import sys
import tempfile

import jubilant


class Stub:
    """A command that answers every call with one text."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder, 'juju')
        self.path.write_text('#!/bin/sh\ncat "$0.out"\n[ -s "$0.err" ] && cat "$0.err" >&2 && exit 1\nexit 0\n')
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def answers(self, document, error=''):
        pathlib.Path(f'{self.path}.out').write_text(json.dumps(document))
        pathlib.Path(f'{self.path}.err').write_text(error)


def check(all_documents, stub):
    juju = jubilant.Juju(model='dev', cli_binary=str(stub.path))

    stub.answers(all_documents['status of an empty model'])
    empty = juju.status()
    assert (empty.apps, empty.machines, empty.model.name) == ({}, {}, 'dev'), empty

    stub.answers(all_documents['status'])
    status = juju.status()
    assert status.model.type == 'iaas' and status.model.version == '3.6.14', status.model
    ledger = status.apps['ledger']
    assert (ledger.charm_name, ledger.charm_rev, ledger.exposed, ledger.version) == ('ledger', 0, False, '2.1'), ledger
    assert (ledger.base.name, ledger.base.channel) == ('ubuntu', '24.04'), ledger.base
    related = ledger.relations['audit'][0]
    assert (related.related_app, related.interface, related.scope) == ('auditor', 'audit', 'container'), related
    unit = ledger.units['ledger/0']
    assert unit.leader and unit.machine == '0' and unit.open_ports == ['8080/tcp'], unit
    assert unit.is_active and unit.workload_status.message == 'ready', unit
    assert status.get_units('auditor')['auditor/0'].juju_status.current == 'executing', unit
    assert status.apps['auditor'].subordinate_to == ['ledger'], status.apps['auditor']
    assert jubilant.all_active(status) and not jubilant.all_agents_idle(status)
    assert status.machines['0'].instance_id == 'box-0', status.machines

    stub.answers(all_documents['status with storage'])
    books = juju.status().storage.storage['books/0']
    assert (books.kind, books.life, books.status.current) == ('filesystem', 'alive', 'attached'), books
    assert books.attachments.units['ledger/0'].location == '/srv/books', books

    stub.answers(all_documents['show-unit'])
    info = juju.show_unit('ledger/0')
    relation = info.relation_info[0]
    assert relation.app_data == {'greeting': 'hi'} and relation.local_unit.in_scope, relation
    assert relation.related_units['teller/0'].data == {'request': '[]'}, relation

    stub.answers(all_documents['config'])
    expected = {'debug': True, 'port': 8080, 'rate': 0.5, 'title': 'yes'}
    config = dict(juju.config('ledger'))
    assert config == expected, config
    assert dict(juju.config('ledger', app_config=True)) == {'trust': False}

    stub.answers(all_documents['show-model'])
    model = juju.show_model('dev')
    assert (model.name, model.short_name, model.life) == ('admin/dev', 'dev', 'alive'), model

    stub.answers(all_documents['run'])
    task = juju.run('ledger/0', 'post')
    assert (task.id, task.results, task.return_code) == ('7', {'balance': '30', 'nested': {'a': '1'}}, 0), task
    assert len(task.log) == 1 and task.success, task

    stub.answers(all_documents['run that fails'], 'ERROR the following task failed:\n - id "7" with return code 1\n')
    try:
        juju.run('ledger/0', 'post')
    except jubilant.TaskError as error:
        assert (error.task.message, error.task.return_code) == ('the book is frozen', 1), error
    else:
        raise AssertionError('a failed task is no TaskError')


def main():
    with tempfile.TemporaryDirectory() as folder:
        check(json.loads(pathlib.Path(sys.argv[1]).read_text()), Stub(folder))
    print('jubilant understands every document')


if __name__ == '__main__':
    main()
