import pytest

from runners.power.sources.nvml_visible import Identity, visible_boards


def boards(count=8, names=None):
    return [
        Identity(i, f"GPU-{i:08d}-aaaa", names[i] if names else "H200", f"00000000:{i + 1:02X}:00.0")
        for i in range(count)
    ]


def chosen(visible, order=None, of=None, mig_parent=lambda uuid: None):
    selection = visible_boards(of or boards(), visible, order, mig_parent)
    return [board.index for board in selection.boards], [note.code for note in selection.notes]


def test_without_the_variable_every_board_is_ours():
    assert chosen(None) == (list(range(8)), [])


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        ("3", [3]),
        ("5,1", [5, 1]),
        (" 2 , 2 ", [2]),
        ("GPU-00000004-aaaa", [4]),
        ("gpu-00000004", [4]),
        ("", []),
        ("-1", []),
        ("1,-1,2", [1]),
        ("NoDevFiles", []),
    ],
)
def test_indices_and_uuids_name_boards_and_the_rest_are_bystanders(visible, indices):
    assert chosen(visible) == (indices, ["bystanders"])


@pytest.mark.parametrize("entry", ["9", "GPU-", "GPU-ffff", "first"])
def test_an_entry_that_names_nothing_hides_itself_and_all_after_it(entry):
    assert chosen(f"1,{entry},2") == ([1], ["cuda_visible_devices", "bystanders"])


def test_indices_count_by_pci_bus_and_not_by_the_order_of_the_list():
    swapped = [Identity(0, "GPU-a", "H200", "00000000:C1:00.0"), Identity(1, "GPU-b", "H200", "00000000:41:00.0")]
    assert chosen("0", of=swapped)[0] == [1]


def test_an_index_among_different_models_is_not_guessed():
    mixed = boards(2, names=["T4", "H200"])
    assert chosen("0", of=mixed) == ([], ["cuda_visible_devices", "bystanders"])
    assert chosen("0", order="FASTEST_FIRST", of=mixed)[0] == []
    assert chosen("0", order="PCI_BUS_ID", of=mixed)[0] == [0]
    assert chosen("GPU-00000001", of=mixed)[0] == [1]


def test_a_mig_instance_stands_for_its_whole_board_once():
    found = chosen(
        "MIG-1f2a,MIG-9c3d", mig_parent={"MIG-1f2a": "GPU-00000002-aaaa", "MIG-9c3d": "GPU-00000002-aaaa"}.get
    )
    assert found == ([2], ["bystanders", "board_shared"])
    assert chosen("MIG-GPU-00000002-aaaa/1/0")[0] == [2]


def test_an_unknown_mig_instance_is_told():
    assert chosen("MIG-1f2a") == ([], ["cuda_visible_devices", "bystanders"])
